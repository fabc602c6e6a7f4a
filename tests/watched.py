"""What the tests of `watch` share: where a finding stands, a trap, the hooks of torch."""

from collections.abc import Callable
from pathlib import Path

import torch

TRAP = "x = torch.zeros(2, requires_grad=True)\nx.pow(2).sum().sqrt().backward()"


def at(site):
    """Return the file and the line of a site, to be compared with that of a comment."""
    return (Path(site.path).name, site.line)


def lines_of(file: str) -> Callable[[str], tuple[str, int]]:
    """Return the function that finds, in a file, the line that ends in a comment."""
    path = Path(file)

    def here(text):
        lines = path.read_text().splitlines()
        (found,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
        return path.name, found

    return here


def hooks_of_torch():
    from torch.nn.modules import module
    from torch.optim import optimizer

    return [
        len(of)
        for of in (
            module._global_forward_hooks,
            module._global_forward_pre_hooks,
            module._global_forward_hooks_always_called,
            module._global_parameter_registration_hooks,
            module._global_module_registration_hooks,
            optimizer._global_optimizer_pre_hooks,
            optimizer._global_optimizer_post_hooks,
        )
    ] + [
        torch._C._len_torch_dispatch_stack(),
        torch.autograd._engine_run_backward is torch.autograd.graph._engine_run_backward,
        hasattr(module.Module, "requires_grad"),
        "tolist" in vars(torch.Tensor),
    ]
