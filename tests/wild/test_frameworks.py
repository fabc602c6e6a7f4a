"""What the answers say of frameworks that call backward, asked of the frameworks."""

import subprocess
import sys
from textwrap import dedent

import pytest
import torch

pytestmark = pytest.mark.wild

STEP = """
    import os
    where = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}
    os.environ.update(where, MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    import deepspeed
    import torch
    from deepspeed.utils import safe_get_full_grad

    stage, way, steps = int("%s"), "%s", int("%s")
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": steps,
        "gradient_clipping": 0.0,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    deepspeed.init_distributed("gloo", verbose=False)
    net = torch.nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    engine = deepspeed.initialize(model=net, optimizer=optimizer, config=config)[0]
    v = torch.tensor([[1.0, 10.0]])
    for _ in range(steps):
        y = engine(torch.tensor([[1.0, 2.0]]))
        if way == "of the output":
            y.backward(v)
        elif way == "folded":
            engine.backward((y * v).sum())
        else:
            engine.backward(y)
        if _ == steps - 1:
            print("gradient", safe_get_full_grad(engine.module.weight).tolist())
        engine.step()
"""


def deepspeed_step(*settings):
    """Return what a step in a process of its own prints and writes to standard error."""
    pytest.importorskip("deepspeed")
    code = dedent(STEP % settings)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return ran.stdout + ran.stderr


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_deepspeed_takes_a_folded_v_at_every_stage(stage):
    said = deepspeed_step(stage, "folded", 1)
    assert "gradient [[1.0, 2.0], [10.0, 20.0]]" in said, said


@pytest.mark.parametrize("stage", [1, 3])
def test_deepspeed_divides_by_the_steps_for_both_ways(stage):
    for way in ("folded", "of the output"):
        said = deepspeed_step(stage, way, 2)
        assert "gradient [[1.0, 2.0], [10.0, 20.0]]" in said, said


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed_takes_backward_of_an_output(stage):
    said = deepspeed_step(stage, "of the output", 1)
    assert "gradient [[1.0, 2.0], [10.0, 20.0]]" in said, said


def test_deepspeed_refuses_what_it_is_said_to_refuse():
    assert "Direct calls to tensor.backward()" in deepspeed_step(0, "of the output", 1)
    assert "loss must be a scalar tensor" in deepspeed_step(2, "plain", 1)


def test_accelerate_hands_v_on_and_divides():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    accelerator.backward(x**2, gradient=torch.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [0.5, 10.0]
