"""Messages of what notices a nan later than the backward pass that made it."""

from pullback._messages._entry import Message, Theme

NOT_FINITE = Theme(
    "not-finite",
    (
        Message(
            anchor="grad-norm-nan",
            title="{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.54}",
            kinds=("Warning",),
            patterns=(
                r"['\"]?grad[ _]norm['\"]?: ['\"]?nan\b",
                r"['\"]grad_norm['\"]: ['\"]?inf\b",
            ),
            older=(
                "loss scale: 1.0 | grad norm: nan | actual seqlen: 2048",
                "memory: 10762  loss: 2.5128  grad_norm: nan",
            ),
            why="""The common norm of all gradients is nan as soon as one entry of one of
                them is. With float16 and a scaler that step is left out; in float32 or
                bfloat16 it is taken, and every parameter is nan after it.""",
            fix="""Once in a while under a scaler: nothing is wrong. In every step: look at
                the loss of one batch before `backward`, then at `p.grad` of each
                parameter; `torch.autograd.detect_anomaly()` names the first operation
                whose backward made a nan.""",
            tell=(
                "`'loss': 0.0` and a norm that is a number, in GRPO: nothing is wrong; the "
                "loss is a mean of centred advantages, and its gradient is not zero.",
                "`'loss': 0.0` beside it, in Hugging Face transformers: the loss is nan, "
                "and `logging_nan_inf_filter=True` leaves it out of the mean that is "
                "printed.",
                "All labels of a batch are ignored (-100, cut off with the answer): the "
                "mean over no tokens is 0/0. `cross_entropy` sends zeros back all the "
                "same; `(losses * mask).sum() / mask.sum()` sends nan. Keep the answer, or "
                "drop such rows.",
                "Weights in float16, or a model trained in bfloat16: overflow. "
                "`bf16=True`.",
                "Loss finite, one gradient nan: a mask over inf, `sqrt` or a norm at 0.",
                "Padding rows of attention that mask everything: softmax over -inf only.",
            ),
            fixed="""
                import torch

                logits = torch.zeros(2, 3, requires_grad=True)
                labels = torch.tensor([-100, -100])  # all ignored
                cross_entropy = torch.nn.functional.cross_entropy
                total = cross_entropy(logits, labels, reduction="sum")
                loss = total / (labels != -100).sum().clamp(min=1)
                loss.backward()
                assert cross_entropy(logits, labels).isnan()
                assert loss == 0 and logits.grad.isfinite().all()
                print(loss, logits.grad)
                """,
            see=(
                "masked-nan",
                "mixed-precision",
                "error-returned-nan-values",
                "ratio-of-one",
            ),
            source=("Time-MoE/Time-MoE#31", "InternLM/xtuner#187", "SY-Xuan/Pink#6"),
        ),
        Message(
            anchor="distribution-of-nan",
            title="Expected parameter loc (Tensor of shape (1,)) of distribution "
            "Normal(loc: tensor([nan]), scale: tensor([1.])) to satisfy the constraint "
            "Real(), but found invalid values: tensor([nan])",
            kinds=("ValueError",),
            patterns=(
                r"Expected parameter (?P<parameter>\w+) \(\w+ of shape .{0,40}?\) of "
                r"distribution .{0,400}? to satisfy the constraint .{0,80}?, but found "
                r"invalid values:.*?\bnan\b",
                r"The parameter (?P<parameter>\w+) has invalid values",
            ),
            older=(
                "The parameter loc has invalid values",
                "Expected parameter logits (Tensor of shape (64, 4)) of distribution "
                "Categorical(logits: torch.Size([64, 4])) to satisfy the constraint "
                "IndependentConstraint(Real(), 1), but found invalid values: "
                "tensor([[nan, nan, nan, nan],",
            ),
            why="""The distribution is only the first to look. The network that computed
                its parameter gave nan: as a rule the weights have been nan since an earlier
                step, whose gradient was.""",
            fix="""Look at the weights before this line (`p.isfinite().all()` for each), and
                at their gradients in the step before; `torch.autograd.detect_anomaly()`
                around that step names the operation. `{parameter}` itself is innocent;
                `validate_args=False` only hides it.""",
            unknown={"parameter": "loc"},
            tell=(
                "The weights are finite and the input is not: an observation, or its "
                "normalisation by a deviation of 0.",
                "The weights are nan: the loss of the step before had `log`, `sqrt`, a "
                "division or `exp` of a large ratio; clip the ratio, add a floor, clip "
                "gradients.",
                "Once `torch.compile` has run in the process, torch leaves this check out "
                "by default: the same nan goes on in silence.",
                "Invalid values that are no nan (a scale of 0 or below): make it with "
                "`softplus` or `exp`.",
            ),
            broken="""
                import torch

                w = torch.zeros(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1)
                (w * w).sqrt().sum().backward()  # 0 times inf
                optimizer.step()
                torch.distributions.Normal(w.detach(), 1.0, validate_args=True)
                """,
            fixed="""
                import torch

                w = torch.zeros(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1)
                (w * w + 1e-12).sqrt().sum().backward()
                assert w.grad.isfinite().all()
                optimizer.step()
                policy = torch.distributions.Normal(w.detach(), 1.0, validate_args=True)
                assert policy.loc == 0
                print(policy)
                """,
            see=("masked-nan", "error-returned-nan-values", "error-norm-at-zero"),
            source=("lupinjia/LeggedGym-Ex#12", "BayraktarLab/cell2location#384"),
        ),
        Message(
            anchor="loss-nan-or-inf",
            title="Loss became infinite or NaN at iteration=27!",
            kinds=("FloatingPointError", "ValueError"),
            patterns=(
                r"Loss became infinite or NaN at iteration ?= ?\d+",
                r"The loss returned in `training_step` is nan or inf",
                r"Detected nan and/or inf values in `(?P<name>[\w.]+)`",
                r"Predicted boxes or scores contain Inf/NaN",
                r"Loss is (?:nan|inf|-inf), stopping training",
                r"Encountered NaN: loss",
                r"WARNING: non-finite loss, ending training",
            ),
            older=(
                "The loss returned in `training_step` is nan or inf.",
                "Detected nan and/or inf values in `layer_1.weight`. Check your forward "
                "pass for numerically unstable operations.",
                "Predicted boxes or scores contain Inf/NaN. Training has diverged.",
                "Loss is nan, stopping training",
                "Encountered NaN: loss",
            ),
            why="""The trainer looked at the loss, or at the weights, and stopped. From here
                on gradients are nan as a rule, since v = 1 is carried back through what
                made the nan.""",
            fix="""Run that batch alone: a loss that is nan at the first weights comes from
                the data or from the formula. One that grows for many steps first has
                diverged: a smaller learning rate, a warm-up, clipped gradients.""",
            tell=(
                "detectron2, after the batch size was made smaller: lower `SOLVER.BASE_LR` "
                "with it; `loss_dict` names the part that went first.",
                "A single part is nan while the others are small: its targets (an empty "
                "box, a label out of range, a division by their number).",
                "`Detected nan and/or inf values in` a weight: the gradient of the step "
                "before was nan already.",
            ),
            fixed="""
                import torch

                score = torch.tensor([200.0, 0.0], requires_grad=True)
                unstable = -score.exp().div(score.exp().sum()).log()[0]
                loss = -score.log_softmax(0)[0]
                loss.backward()
                assert unstable.isnan() and loss == 0
                assert score.grad.isfinite().all()
                print(unstable, loss)
                """,
            see=("gradient-norms", "masked-nan", "error-returned-nan-values"),
            source=(
                "facebookresearch/detectron2#214",
                "facebookresearch/detectron2#508",
                "cheesama/DIET-pytorch#1",
            ),
        ),
        Message(
            anchor="gaussian-process-nan",
            title="cholesky_cpu: 64 of 64 elements of the torch.Size([8, 8]) tensor "
            "are NaN.",
            kinds=("NanError", "RuntimeError"),
            patterns=(
                r"\d+ of \d+ elements of the torch\.Size\(\[[\d, ]*\]\) tensor are NaN",
                r"\d+ elements of the \d+ element gradient array `gradf` are NaN",
            ),
            older=(
                "60 elements of the 60 element gradient array `gradf` are NaN. This often "
                "indicates numerical issues.",
            ),
            why="""A Gaussian process inverts its kernel matrix, and so do the derivatives
                with respect to the lengthscale, the noise and the inputs. Points that lie
                close together make that matrix almost singular: in float32 its Cholesky
                factor, or the gradient through it, is nan, and the step puts it into the
                parameters.""",
            fix="""Make the data `torch.double`, scale the inputs to [0, 1] and standardise
                the targets; drop repeated points, and keep a floor under the noise.""",
            tell=(
                "`elements of the … tensor are NaN` in the first step: a nan in the data; "
                "GPyTorch reports it on the CPU, and computes on with it on a GPU.",
                "After some steps: print the parameters; a lengthscale that ran away, or a "
                "nan from the step before. A smaller learning rate, a prior, a constraint.",
                "`gradf`: BoTorch differentiates the acquisition by its inputs. Double "
                "precision; the acquisitions in logarithms (`qLogExpectedImprovement`).",
            ),
            fixed="""
                import torch

                x = torch.linspace(0, 1, 8, dtype=torch.double)
                scale = torch.tensor(0.3, dtype=torch.double, requires_grad=True)
                gaps = (x[:, None] - x) / scale
                kernel = torch.exp(-gaps.square() / 2) + 1e-6 * torch.eye(8)
                torch.linalg.cholesky(kernel).logdet().backward()
                assert scale.grad.isfinite()
                print(scale.grad)
                """,
            see=("singular-matrices", "masked-nan"),
            source=(
                "meta-pytorch/botorch#337",
                "facebook/Ax#576",
                "meta-pytorch/botorch#945",
            ),
        ),
        Message(
            anchor="underflow-in-dt",
            title="underflow in dt nan",
            kinds=("AssertionError",),
            patterns=(
                r"underflow in dt (?:nan|[\d.e-]+)",
                r"non-finite values in state `y`",
            ),
            older=("non-finite values in state `y`: tensor([[nan, nan]])",),
            why="""A solver with adaptive steps, such as torchdiffeq's `dopri5`, halves its
                step until the error is small enough, and arrived at a step that no longer
                moves the time. The right-hand side has grown steep, or is nan.""",
            fix="""`nan`: look at the weights and the gradient of the step before. A number:
                a smaller learning rate, weight decay, smooth activations, or a solver of
                fixed steps (`method="rk4"`).""",
            tell=(
                "`non-finite values in state`: the state itself is nan or inf; it grew "
                "without bound, or began as nan.",
                "In `forward`, in the first step: scale the times (seconds instead of "
                "thousands) and the state.",
                "In `forward`, after some steps: training diverged; the threads report it "
                "for SGD where Adam went on.",
                "In `backward` only: the adjoint integrates backwards, where a stable "
                "equation is unstable. `odeint` instead of `odeint_adjoint` differentiates "
                "the steps themselves.",
            ),
            see=("same-or-not", "gradient-norms"),
            source=(
                "rtqichen/torchdiffeq#27",
                "rtqichen/torchdiffeq#58",
                "rtqichen/torchdiffeq#184",
            ),
        ),
        Message(
            anchor="groups-norm-positive",
            title="assert all_groups_norm > 0.",
            kinds=("AssertionError",),
            patterns=(r"assert all_group\w*_norm ?> ?0", r"assert all_grad_norm ?> ?0"),
            older=("assert all_grad_norm>0",),
            why="""DeepSpeed's optimizer for bfloat16 wants a positive norm of the gradients
                before it clips. It is 0 when every gradient is exactly 0, and the helper
                writes -1 for a norm that is nan or infinite.""",
            fix="""Print the loss of that batch. 0 or nan: all its labels are masked, leave
                such batches out. Otherwise look for the gradient that is not finite.""",
            tell=(
                "No token of the batch has a label (-100 everywhere): norm 0 or a nan.",
                "Loss finite, several hundred steps done: a gradient overflowed; a smaller "
                "learning rate.",
            ),
            see=("masked-nan", "gradient-norms", "error-grad-norm-nan"),
            source=(
                "deepspeedai/DeepSpeed#5223",
                "deepspeedai/DeepSpeed#8614",
                "hiyouga/LlamaFactory#9298",
            ),
        ),
    ),
)
