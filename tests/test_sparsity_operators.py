"""The index sets of every operator that PyTorch samples, against its derivatives."""

import warnings
from itertools import islice

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import pullback

SAMPLES, INPUTS, OUTPUTS = 3, 500, 500  # of each operator; numbers in one of them

OPERATORS = {
    f"{op.name}.{op.variant_test_name}".rstrip("."): op
    for op in op_db
    if torch.float64 in op.dtypes and op.supports_autograd
}

#: What has no rule, or takes indices that x decides: the pattern is all of the operator's
#: inputs, and ``assumed_dense`` says so.
ASSUMED_DENSE = {
    "max_pool2d_with_indices_backward",
    "nanquantile",
    "quantile",
    "_segment_reduce.lengths",
    "_segment_reduce.offsets",
    "grid_sampler_3d",
    "nn.functional.grid_sample",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.embedding_bag",
    "nn.functional.linear_cross_entropy.chunked",
    "nn.functional.linear_cross_entropy.chunked_none",
    "nn.functional.rrelu",
    "sparse.mm.reduce",
}

#: torch's gradient in ``self`` is that of the numbers that were overwritten.
WRONG_IN_TORCH = "as_strided_scatter"

#: torch's own parts of it return the weights in place of their logsumexp, which only
#: its backward reads; tests/test_sparsity.py has the function that calls it.
OTHER_RESULT = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"

#: Has no strided result to carry index sets, and is refused.
SPARSE_RESULT = "to_sparse"

SAMPLED = OPERATORS.keys() - {WRONG_IN_TORCH, OTHER_RESULT, SPARSE_RESULT}

#: Operators that programs with sparse Jacobians are made of: nothing but non-zeros.
EXACT = """
    add sub mul div.no_rounding_mode pow exp log sin cos tanh sigmoid sqrt square
    atan2 hypot addcmul addcdiv lerp where masked_fill clone copysign nan_to_num mm
    bmm mv matmul einsum inner outer dot addmm addmv baddbmm tensordot trace diag sum
    mean var std amax logsumexp prod cumsum cumprod logcumsumexp diff softmax
    log_softmax cat stack hstack vstack chunk split unbind tile repeat reshape view
    permute transpose squeeze unsqueeze expand movedim flip roll rot90 __getitem__
    narrow select slice gather scatter scatter_add index_select index_put index_copy
    index_fill take take_along_dim unfold tril triu diagonal diag_embed masked_select
    masked_scatter as_strided select_scatter diagonal_scatter meshgrid.list_of_tensors
    nn.functional.linear nn.functional.bilinear nn.functional.embedding
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
    nn.functional.conv_transpose1d nn.functional.conv_transpose2d
    nn.functional.pad.constant nn.functional.pad.circular nn.functional.pad.reflect
    nn.functional.pad.replicate nn.functional.avg_pool1d nn.functional.avg_pool2d
    nn.functional.interpolate.nearest nn.functional.interpolate.linear
    nn.functional.batch_norm nn.functional.group_norm nn.functional.mse_loss
    nn.functional.cross_entropy nn.functional.gelu nn.functional.silu
    nn.functional.softplus linalg.inv linalg.det linalg.vector_norm linalg.cross
    gradient cumulative_trapezoid trapezoid
"""


def functions(op):
    """Yield a function of one tensor, and that tensor, for each one in the samples."""
    samples = op.sample_inputs("cpu", torch.float64, requires_grad=True)
    for sample in islice(samples, SAMPLES):
        leaves, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        fixed = [t.detach() if isinstance(t, torch.Tensor) else t for t in leaves]
        for k, t in enumerate(leaves):
            if not isinstance(t, torch.Tensor) or not t.requires_grad:
                continue
            if t.layout is torch.strided and 0 < t.numel() <= INPUTS:

                def f(x, k=k, fixed=fixed, structure=structure, sample=sample):
                    given = [*fixed[:k], x, *fixed[k + 1 :]]
                    first, args, kwargs = pytree.tree_unflatten(given, structure)
                    torch.manual_seed(0)  # some operators draw
                    y = sample.output_process_fn_grad(op.op(first, *args, **kwargs))
                    ys = [t for t in pytree.tree_leaves(y) if isinstance(t, torch.Tensor)]
                    ys = [
                        torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
                        for t in ys
                    ]
                    ys = [t.reshape(-1).double() for t in ys if t.is_floating_point()]
                    return torch.cat(ys)

                yield f, t.detach().clone()


def nonzeros(f, x):
    """Return where J is other than zero (but for rounding), row by row."""
    x = x.clone().requires_grad_()
    y = f(x)
    if not y.requires_grad:
        return torch.zeros(y.numel(), x.numel(), dtype=torch.bool)
    rows = [
        torch.autograd.grad(y, x, v, retain_graph=True, materialize_grads=True)[0]
        for v in torch.eye(y.numel(), dtype=y.dtype)
    ]
    return torch.stack(rows).reshape(len(rows), -1).nan_to_num(0.0).abs() > 1e-12


def plans(op):
    """Yield the plan found at each sampled point, with f and the point."""
    for f, x in functions(op):
        try:
            outputs = f(x).numel()
        except RuntimeError:  # a sparse result, or a view of what is not there
            continue
        if 0 < outputs <= OUTPUTS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some operators look at values
                yield pullback.sparsity(f, x), f, x


@pytest.mark.sweep(lot=40)
@pytest.mark.parametrize("name", sorted(SAMPLED))
def test_pattern_contains_every_non_zero(name):
    dense = set()
    for plan, f, x in plans(OPERATORS[name]):
        pattern = plan.pattern.to_dense()
        try:
            found = nonzeros(f, x)
        except (RuntimeError, NotImplementedError):  # no derivative of this sample
            continue
        assert pattern.shape == found.shape
        assert not (found & ~pattern).any()
        dense |= set(plan.assumed_dense)
    assert bool(dense) == (name in ASSUMED_DENSE)


@pytest.mark.sweep(lot=12)
@pytest.mark.parametrize("name", EXACT.split())
def test_pattern_is_exact_for_common_operators(name):
    generator = torch.Generator().manual_seed(0)  # away from accidental zeros
    compared = 0
    for plan, f, x in plans(OPERATORS[name]):
        found = nonzeros(f, x)
        for _ in range(4):
            other = torch.rand(x.shape, dtype=x.dtype, generator=generator) + 0.5
            found |= nonzeros(f, other)
        assert torch.equal(plan.pattern.to_dense(), found)
        compared += found.any()
    assert compared


def test_where_torch_is_wrong_differences_are_right():
    x = torch.arange(9.0, dtype=torch.float64)
    source = torch.full((2, 2), 0.5, dtype=torch.float64)

    def f(x):
        y = torch.as_strided_scatter(x.reshape(3, 3), source, (2, 2), (1, 2))
        return y.flatten()

    J = torch.stack([f(x + e) - f(x) for e in torch.eye(9, dtype=x.dtype)], 1)
    assert torch.equal(pullback.sparsity(f, x).pattern.to_dense(), J != 0)
    assert not torch.equal(nonzeros(f, x), J != 0)  # or else the exception can go


def test_a_sparse_result_is_refused():
    with pytest.raises(TypeError, match=r"layout torch\.sparse_coo .*_to_sparse"):
        pullback.sparsity(lambda x: x.to_sparse().to_dense(), torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("heads", [1, 2])
def test_attention(dtype, heads):
    """Its parts call ``contiguous`` and ``to``, which copy or do not."""
    torch.manual_seed(0)  # of the weights
    attention = torch.nn.MultiheadAttention(4, heads, batch_first=True, dtype=dtype)

    def f(x):
        x = x.reshape(2, 3, 4)
        return attention(x, x, x, need_weights=False)[0].flatten()

    x = torch.randn(24, dtype=dtype)
    plan = pullback.sparsity(f, x)
    assert plan.assumed_dense == ()
    own = torch.eye(2, dtype=torch.bool).repeat_interleave(12, 0).repeat_interleave(12, 1)
    assert torch.equal(plan.pattern.to_dense(), own)  # of each sample alone
    assert not (nonzeros(f, x) & ~own).any()
