"""``check`` is never wrong about a right network, and finds every wrong backward."""

import warnings

import pytest
import torch
from networks import FUNCTIONS, MISTAKES, network, wrong

import pullback

SAMPLES = 12  # of one operation of torch
DTYPES = [torch.float32, torch.float64]


@pytest.mark.sweep(lot=6)
@pytest.mark.parametrize("seed", range(400))
def test_no_false_alarm_on_a_right_network(seed):
    f, x = network(seed)
    pullback.assert_checked(f, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM])
def test_half_precision_behind_a_layer_that_refuses_float64(kind, dtype):
    """The layer takes no float64 beside its weights; what it gives is rounded coarsely."""
    for seed in range(4):
        torch.manual_seed(seed)
        layer, x = kind(4, 6), torch.randn(3, 2, 4)
        pullback.assert_checked(lambda x, layer=layer: layer(x)[0].to(dtype).float(), x)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_wrong_backward_is_found_with_the_entry(function, mistake):
    torch.manual_seed(3)
    dtype = DTYPES[len(function + mistake) % 2]
    x = torch.randn(3, 3, dtype=dtype)
    report = pullback.check(wrong(function, mistake), x)
    entry = next(r.entry for r in report.routes if r.name == "finite differences")
    right = pullback.check(FUNCTIONS[function], x).result  # v is the same for both
    assert not report.ok
    assert entry.others == 0
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(entry.got, float(report.result[entry.at]), **close)
    torch.testing.assert_close(entry.expected, float(right[entry.at]), **close)


#: Left out, and why.
OWN_WAY = {
    "nn.functional.ctc_loss": "its backward holds for logarithms of probabilities alone",
    "as_strided_scatter": "torch.autograd.gradcheck calls its derivative wrong, too",
    "nn.functional.max_unpool1d": "its backward is wrong where places repeat",
    "nn.functional.max_unpool2d": "its backward is wrong where places repeat",
    "nn.functional.max_unpool3d": "its backward is wrong where places repeat",
    "normal": "its derivative is 0, though the numbers move with their mean",
}


@pytest.mark.whole
def test_no_false_alarm_on_the_samples_of_torch():
    from torch.testing._internal.common_methods_invocations import op_db

    alarms, skipped, tried = [], {}, 0
    for op in op_db:
        if not op.supports_autograd or not op.supports_dtype(torch.float64, "cpu"):
            skipped[op.name] = "no derivative in float64"
            continue
        for k, sample in enumerate(
            op.sample_inputs("cpu", torch.float64, requires_grad=True)
        ):
            if k == SAMPLES:
                break
            reason, error = judge(op, sample)
            if reason:
                skipped[op.name] = reason
                continue
            tried += 1
            if error:
                alarms.append(f"{op.name}: {error}")
    print(f"{tried} samples tried", *skipped.items(), sep="\n")
    assert not alarms, "\n".join(alarms)
    assert tried > 3500


def judge(op, sample):
    """Return why a sample was not tried, and what ``check`` finds wrong in it."""
    x = sample.input
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return "its first input is no real tensor", None
    if op.name in OWN_WAY:
        return OWN_WAY[op.name], None
    if not x.requires_grad:
        return "its first input has no derivative", None

    def f(x):
        y = op.gradcheck_wrapper(op.get_op(), x, *sample.args, **sample.kwargs)
        y = y[0] if isinstance(y, tuple | list) else y
        return torch.view_as_real(y) if y.is_complex() else y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = pullback.check(f, x.detach())
        except (TypeError, ValueError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"[:100], None
    if not report.result.isfinite().all():
        return "its derivative is NaN or infinite at the sample", None
    return None, report.error
