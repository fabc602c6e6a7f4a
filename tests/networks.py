"""Right networks and wrong backwards, as many as asked for, for ``check`` to judge."""

import random

import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, x):
        return (x @ x.transpose(-1, -2)).softmax(-1) @ x


def mlp(draw, width):
    layers = []
    for _ in range(draw.randint(1, 4)):
        new = draw.choice([3, 8, 16])
        layers += [nn.Linear(width, new, bias=draw.random() < 0.8)]
        layers += [draw.choice([nn.ReLU, nn.Tanh, nn.GELU, nn.LeakyReLU, nn.Identity])()]
        norm = draw.choice([None, nn.LayerNorm, nn.BatchNorm1d])
        layers += [norm(new)] if norm else []
        layers += [nn.Dropout(0.3)] if draw.random() < 0.3 else []
        width = new
    return nn.Sequential(*layers, nn.Linear(width, 3))


def convolutional(draw):
    pool = draw.choice([nn.MaxPool2d, nn.AvgPool2d])
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        draw.choice([nn.BatchNorm2d(4), nn.Identity()]),
        nn.ReLU(),
        pool(2),
        nn.Conv2d(4, 3, 3),
        nn.ReLU(),
        nn.Flatten(),
    )


def network(seed):
    """Return a network with random weights, in training or not, and its input."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    kind = draw.choice(["mlp", "mlp", "convolution", "attention", "encoder", "recurrent"])
    if kind == "mlp":
        width = draw.choice([2, 10, 30])
        model, x = mlp(draw, width), torch.randn(draw.choice([2, 5]), width)
    elif kind == "convolution":
        model, x = convolutional(draw), torch.randn(2, 2, 8, 8)
    elif kind == "attention":
        layers = nn.Linear(4, 6), Attention(), nn.LayerNorm(6), nn.Linear(6, 2)
        model, x = nn.Sequential(*layers), torch.randn(2, 4, 4)
    elif kind == "encoder":
        activation = draw.choice(["relu", "gelu"])
        model = nn.TransformerEncoderLayer(8, 2, 16, 0.2, activation, batch_first=True)
        x = torch.randn(2, 5, 8)
    else:
        layer = draw.choice([nn.LSTM, nn.GRU, nn.RNN])(3, 4)
        x = torch.randn(5, 3)
        if draw.random() < 0.5:
            layer, x = layer.double(), x.double()
        return lambda x: layer(x)[0], x
    model = model.train(draw.random() < 0.6)
    if draw.random() < 0.4:
        model, x = model.double(), x.double()
    return model, x


FUNCTIONS = {
    "square": torch.square,
    "sin": torch.sin,
    "softmax": lambda x: x.softmax(-1),
    "matrix": lambda x: x @ torch.arange(9.0).to(x).view(3, 3).cos(),
    "relu": torch.relu,
    "norm": lambda x: x / x.square().sum(-1, keepdim=True).sqrt(),
    "product": lambda x: x * x.roll(1, -1),
    "cumulated": lambda x: x.cumsum(0),
    "maximum": lambda x: x.amax(-1, keepdim=True).expand_as(x),
    "exponential": lambda x: (x / 2).exp() * x,
}


def _only(where, change):
    def wrong(x, g):
        g = g.clone()
        g.view(-1)[where(x)] = change(g.view(-1)[where(x)])
        return g

    return wrong


MISTAKES = {
    "sign": lambda x, g: -g,
    "factor": lambda x, g: 0.5 * g,
    "one in a thousand": lambda x, g: 1.001 * g,
    "transposed": lambda x, g: g.T,
    "missing term": lambda x, g: g - 0.3 * x.sin(),
    "swapped halves": lambda x, g: g.flip(0),
    "one entry": _only(lambda x: 5, lambda g: 1.1 * g + 0.1),
    "last row": lambda x, g: torch.cat([g[:-1], 2 * g[-1:] + 0.1]),
    "summed": lambda x, g: g + g.abs().mean(),
    "shifted": lambda x, g: g.roll(1, 1),
}


def wrong(function, mistake):
    """Return a function of 3 by 3 numbers whose backward makes a mistake."""

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return FUNCTIONS[function](x)

        @staticmethod
        def backward(ctx, v):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                (g,) = torch.autograd.grad(FUNCTIONS[function](leaf), leaf, v)
            return MISTAKES[mistake](x, g)

    return Wrong.apply
