"""Programs with real libraries: tiny models with random weights, and steps of training.

Each function here makes one program, in the default dtype of the caller. To add one,
write a function under :func:`program`; every question of ``test_wild.py`` is asked of it.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss


@dataclass
class Program:
    """A program, and a function of one floating-point tensor with the model inside.

    Attributes:
        train: Trains for two steps.
        f: From a tensor to one of at most some ten numbers; it draws no random numbers.
        x: Its input.
    """

    train: Callable[[], object]
    f: Callable[[torch.Tensor], torch.Tensor]
    x: torch.Tensor


#: The programs: the library, and the function that makes it.
PROGRAMS: list[tuple[str, Callable[[], Program]]] = []


def program(library):
    """Enter a function that makes a program with this library."""

    def enter(make):
        PROGRAMS.append((library, make))
        return make

    return enter


def trained(net, loss, optimizer=torch.optim.AdamW):
    """Return a function that trains two steps on the loss that ``loss()`` returns."""

    def train():
        net.train()
        updates = optimizer(net.parameters(), lr=1e-3)
        for _ in range(2):
            updates.zero_grad()
            loss().backward()
            updates.step()

    return train


IDS = torch.tensor([[1, 5, 3, 2, 7, 4], [2, 2, 6, 1, 0, 3]])
LABELS = torch.tensor([0, 1])

# --- transformers ---------------------------------------------------------------------


def of_tokens(net, head=lambda out: out.logits[:, -1, :4], width=16, **others):
    """Return a program of a language model that is trained on its own loss."""

    def f(embeddings):
        return head(net.eval()(inputs_embeds=embeddings, **others))

    train = trained(net, lambda: net(input_ids=IDS, labels=IDS, **others).loss)
    return Program(train, f, torch.randn(1, 3, width))


@program("transformers")
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=16, n_positions=8, n_embd=16, n_layer=2, n_head=2)
    return of_tokens(GPT2LMHeadModel(config))


SIZES = {
    "vocab_size": 16,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 16,
}


@program("transformers")
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return of_tokens(LlamaForCausalLM(LlamaConfig(num_key_value_heads=1, **SIZES)))


@program("transformers")
def bert():
    from transformers import BertConfig, BertForMaskedLM

    return of_tokens(BertForMaskedLM(BertConfig(**SIZES)))


@program("transformers")
def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM

    more = {"experts_implementation": "eager"}  # the others know no float64
    config = MixtralConfig(num_key_value_heads=1, num_local_experts=3, **SIZES, **more)
    return of_tokens(MixtralForCausalLM(config))


@program("transformers")
def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=16, hidden_size=16, state_size=4, num_hidden_layers=2)
    return of_tokens(MambaForCausalLM(config))


@program("transformers")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=16,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
    )
    net = T5ForConditionalGeneration(config)

    def f(embeddings):
        out = net.eval()(inputs_embeds=embeddings, decoder_input_ids=IDS[:1, :2])
        return out.logits[:, -1, :4]

    train = trained(net, lambda: net(input_ids=IDS, labels=IDS).loss)
    return Program(train, f, torch.randn(1, 3, 16))


@program("transformers")
def vision_transformer():
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {name: size for name, size in SIZES.items() if name[0] in "hin"}
    net = ViTForImageClassification(ViTConfig(image_size=8, patch_size=4, **sizes))
    images = torch.randn(2, 3, 8, 8)
    train = trained(net, lambda: net(pixel_values=images, labels=LABELS).loss)
    x = torch.randn(1, 3, 8, 8)
    return Program(train, lambda x: net.eval()(pixel_values=x).logits, x)


# --- timm -----------------------------------------------------------------------------


def of_images(net, size=32):
    """Return a program of a classifier of images."""
    images = torch.randn(4, 3, size, size)
    labels = torch.tensor([0, 1, 2, 0])
    train = trained(net, lambda: cross_entropy(net(images), labels))

    def f(x):  # a small picture, made larger
        x = torch.nn.functional.interpolate(x, size=(size, size))
        return net.eval()(x)

    return Program(train, f, torch.randn(1, 3, 4, 4))


@program("timm")
def resnet():
    import timm

    return of_images(timm.create_model("resnet10t", num_classes=3))


@program("timm")
def mobilenet():
    import timm

    return of_images(timm.create_model("mobilenetv3_small_050", num_classes=3))


@program("timm")
def convnext():
    import timm

    return of_images(timm.create_model("convnext_atto", num_classes=3, depths=(1, 1, 1, 1)))


@program("timm")
def swin():
    import timm

    sizes = {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4), "window_size": 4}
    name = "swin_tiny_patch4_window7_224"
    return of_images(timm.create_model(name, img_size=32, num_classes=3, **sizes))


# --- differential equations -----------------------------------------------------------


def of_vectors(net, inputs, outputs, batch=8, **options):
    """Return a program of a regression."""
    data, targets = torch.randn(batch, inputs), torch.randn(batch, outputs)
    train = trained(net, lambda: mse_loss(net(data), targets), **options)
    x = torch.randn(2, inputs)
    return Program(train, lambda x: net.eval()(x), x)


class Flow(nn.Module):
    """A neural differential equation."""

    def __init__(self, solve, **options):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
        self.solve, self.options = solve, options

    def forward(self, x):
        times = torch.tensor([0.0, 1.0], dtype=x.dtype)
        field = Field(self.field)
        return self.solve(field, x, times, **self.options)[-1]


class Field(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, t, x):
        return self.net(x)


@program("torchdiffeq")
def neural_ode():
    from torchdiffeq import odeint

    return of_vectors(Flow(odeint, method="dopri5"), 3, 3)


@program("torchdiffeq")
def neural_ode_by_adjoint():
    from torchdiffeq import odeint, odeint_adjoint

    net = Flow(odeint_adjoint, method="rk4")
    plain = Flow(odeint, method="rk4")  # the adjoint has no rule under vmap
    plain.field = net.field
    return Program(of_vectors(net, 3, 3).train, *_function_of(plain, 3))


def _function_of(net, inputs):
    return (lambda x: net.eval()(x)), torch.randn(2, inputs)


# --- Gaussian processes and probabilistic programs ------------------------------------


@program("gpytorch")
def gaussian_process():
    import gpytorch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.RBFKernel(ard_num_dims=2)
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x):
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    x = torch.rand(12, 2)
    y = x.sum(1).sin()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    net = Process(x, y, likelihood)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, net)
    train = trained(net, lambda: -objective(net(x), y), torch.optim.Adam)

    def f(x):
        return net.eval()(x).mean

    return Program(train, f, torch.rand(3, 2))


@program("gpytorch")
def variational_process():
    import gpytorch
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self, points):
            distribution = CholeskyVariationalDistribution(len(points))
            super().__init__(VariationalStrategy(self, points, distribution))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.MaternKernel()

        def forward(self, x):
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    x = torch.rand(12, 1)
    y = x[:, 0].sin()
    net = Process(torch.rand(4, 1))
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, net, num_data=12)
    both = nn.ModuleList([net, likelihood])
    train = trained(both, lambda: -objective(net(x), y), torch.optim.Adam)
    return Program(train, lambda x: net.eval()(x).mean, torch.rand(3, 1))


@program("botorch")
def acquisition():
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.rand(6, 2)
    model = SingleTaskGP(x, x.sum(1, keepdim=True).sin())
    best = LogExpectedImprovement(model, best_f=0.5)
    box = torch.tensor([[0.0, 0.0], [1.0, 1.0]])

    def train():
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        optimize_acqf(best, box, q=1, num_restarts=2, raw_samples=4)

    return Program(train, lambda x: model.eval()(x).mean, torch.rand(3, 2))


@program("pyro")
def variational_inference():
    import pyro
    from pyro.distributions import Normal
    from pyro.infer import SVI, Trace_ELBO

    data = torch.randn(10) + 2

    def model():
        mean = pyro.sample("mean", Normal(0.0, 1.0))
        with pyro.plate("data", len(data)):
            pyro.sample("x", Normal(mean, 1.0), obs=data)

    def guide():
        location = pyro.param("location", torch.tensor(0.0))
        log_scale = pyro.param("log scale", torch.tensor(0.0))
        pyro.sample("mean", Normal(location, log_scale.exp()))

    def train():
        pyro.clear_param_store()
        inference = SVI(model, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
        for _ in range(2):
            inference.step()

    def f(x):
        return Normal(x, 1.0, validate_args=False).log_prob(data[:4]).cumsum(0)

    return Program(train, f, torch.randn(4))


@program("nflows")
def masked_autoregressive_flow():
    from nflows.transforms import MaskedAffineAutoregressiveTransform

    return of_density(
        MaskedAffineAutoregressiveTransform(features=3, hidden_features=8) for _ in range(2)
    )


@program("nflows")
def spline_flow():
    from nflows.nn.nets import ResidualNet
    from nflows.transforms import PiecewiseRationalQuadraticCouplingTransform

    def net(inputs, outputs):
        return ResidualNet(inputs, outputs, hidden_features=8, num_blocks=1)

    return of_density(
        PiecewiseRationalQuadraticCouplingTransform(
            torch.tensor(mask), net, num_bins=4, tails="linear"
        )
        for mask in ([0, 1, 0], [1, 0, 1])
    )


def of_density(layers):
    """Return a program that fits a density."""
    from nflows.distributions import StandardNormal
    from nflows.flows import Flow as Density
    from nflows.transforms import CompositeTransform

    density = Density(CompositeTransform(list(layers)), StandardNormal([3]))
    data = torch.randn(8, 3)
    train = trained(density, lambda: -density.log_prob(data).mean())
    return Program(train, lambda x: density.eval().log_prob(x), torch.rand(2, 3))


# --- graphs, symmetries, pictures -----------------------------------------------------


@program("e3nn")
def equivariant():
    from e3nn import o3

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            harmonics = o3.Irreps.spherical_harmonics(2)
            self.harmonics = o3.SphericalHarmonics(harmonics, normalize=True)
            self.product = o3.FullyConnectedTensorProduct(harmonics, harmonics, "4x0e + 1o")
            self.readout = o3.Linear("4x0e + 1o", "0e + 1o")

        def forward(self, x):
            y = self.harmonics(x)
            return self.readout(self.product(y, y))

    return of_vectors(Net(), 3, 4)


def of_graph(net):
    """Return a program that classifies the nodes of a graph."""
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    features, labels = torch.randn(4, 5), torch.tensor([0, 1, 0, 1])
    train = trained(net, lambda: cross_entropy(net(features, edges), labels))
    return Program(train, lambda x: net.eval()(x, edges), torch.randn(4, 5))


@program("torch_geometric")
def graph_convolution():
    from torch_geometric.nn import GCN

    return of_graph(GCN(5, 8, 2, 2, dropout=0.5))


@program("torch_geometric")
def graph_attention():
    from torch_geometric.nn import GAT

    return of_graph(GAT(5, 8, 2, 2, v2=True, heads=2))


@program("torch_geometric")
def graph_isomorphism():
    from torch_geometric.nn import GIN

    return of_graph(GIN(5, 8, 2, 2, norm="batch_norm"))


@program("kornia")
def registration():
    from kornia.geometry.transform import warp_affine

    class Register(nn.Module):
        def __init__(self):
            super().__init__()
            self.matrix = nn.Parameter(torch.eye(2, 3)[None])

        def forward(self, image):
            return warp_affine(image, self.matrix, (8, 8))

    net = Register()
    source, target = torch.rand(1, 1, 8, 8), torch.rand(1, 1, 8, 8)
    train = trained(net, lambda: mse_loss(net(source), target))

    def f(x):
        return warp_affine(x, torch.eye(2, 3)[None] * 0.9, (4, 4)).flatten(1)

    return Program(train, f, torch.rand(1, 1, 4, 4))


@program("kornia")
def filtered():
    import kornia

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, image):
            image = kornia.filters.gaussian_blur2d(self.first(image), (3, 3), (1.0, 1.0))
            return kornia.color.rgb_to_grayscale(image)

    net = Net()
    images, targets = torch.rand(2, 3, 6, 6), torch.rand(2, 1, 6, 6)
    loss = kornia.losses.SSIMLoss(3)
    train = trained(net, lambda: loss(net(images), targets))
    return Program(train, lambda x: net.eval()(x).flatten(1), torch.rand(1, 3, 3, 3))


@program("diffusers")
def diffusion():
    from diffusers import DDPMScheduler, UNet2DModel

    net = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    )
    scheduler = DDPMScheduler(num_train_timesteps=10)

    def loss():
        images, noise = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
        times = torch.tensor([3, 7])
        noisy = scheduler.add_noise(images, noise, times)
        return mse_loss(net(noisy, times).sample, noise)

    def f(x):
        return net.eval()(x, torch.tensor([3])).sample[:, :, ::4, ::4]

    return Program(trained(net, loss), f, torch.randn(1, 1, 8, 8))


@program("vit_pytorch")
def patches():
    from vit_pytorch import ViT

    sizes = {"dim": 16, "depth": 2, "heads": 2, "mlp_dim": 16, "dim_head": 8}
    return of_images(ViT(image_size=16, patch_size=8, num_classes=3, **sizes), size=16)


# --- training loops that others write -------------------------------------------------


@program("peft")
def low_rank_adaptation():
    from peft import LoraConfig, get_peft_model

    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    adapted = get_peft_model(net, LoraConfig(r=2, target_modules=["0", "2"]))
    return of_vectors(adapted, 4, 2)


def small():
    """Return a network, and data in batches."""
    data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 2))
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    return net, torch.utils.data.DataLoader(data, batch_size=2)


@program("accelerate")
def accumulation():
    from accelerate import Accelerator

    net, loader = small()

    def train():
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        updates = torch.optim.AdamW(net.parameters())
        prepared, updates, batches = accelerator.prepare(net.train(), updates, loader)
        for x, y in batches:
            with accelerator.accumulate(prepared):
                accelerator.backward(mse_loss(prepared(x), y))
                accelerator.clip_grad_norm_(prepared.parameters(), 1.0)
                updates.step()
                updates.zero_grad()

    return Program(train, *_function_of(net, 4))


@program("lightning")
def trainer():
    import lightning

    net, loader = small()

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch):
            x, y = batch
            return mse_loss(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    def train():
        with tempfile.TemporaryDirectory() as folder:
            lightning.Trainer(
                accelerator="cpu",
                max_steps=2,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                default_root_dir=folder,
            ).fit(Task(), loader)

    return Program(train, *_function_of(net, 4))


@program("transformers")
def fine_tuning():
    from transformers import Trainer, TrainingArguments

    net = gpt2_for_classes()
    data = [
        {"input_ids": ids, "labels": label} for ids, label in zip(IDS, LABELS, strict=True)
    ]

    def train():
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder,
                max_steps=2,
                per_device_train_batch_size=2,
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
            )
            Trainer(net, arguments, train_dataset=data).train()

    def f(embeddings):
        return net.eval()(inputs_embeds=embeddings).logits

    return Program(train, f, torch.randn(1, 3, 16))


def gpt2_for_classes():
    from transformers import GPT2Config, GPT2ForSequenceClassification

    sizes = {"vocab_size": 16, "n_positions": 8, "n_embd": 16, "n_layer": 2, "n_head": 2}
    return GPT2ForSequenceClassification(GPT2Config(pad_token_id=0, **sizes))
