"""Products with derivatives that are never formed: J u, v^T J, H u, and operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pullback._function import (
    CalledFunction,
    Recorded,
    detached,
    function_or_tensor,
    plain_attention,
    stops_at_fused_attention,
    without_aux,
)
from pullback._graph import check_twice, hidden_backwards, reach, refusal
from pullback._inputs import (
    check_all_real,
    check_devices,
    check_no_transform,
    check_real,
    flatten,
    kind_of,
    named_tensors,
)
from pullback._products import Together, logger, pulled, ramps, rows_in_chunks
from pullback._products import vjp as pull_through
from pullback._torch import pytree, version

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator  # type: ignore[import-untyped]

Product = Callable[[Sequence[Tensor]], list[Tensor]]


def vjp(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    v: Any,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
) -> Any:
    r"""Return the vector-Jacobian product :math:`J^\top v`, in the shape of x.

    It is what ``y.backward(v)`` adds to ``x.grad``; here nothing is added anywhere.

    Args:
        f: Function of the inputs that returns a tensor, or a tuple, list or dict of
            tensors; or a tensor y, already computed from the inputs.
        *inputs: What f is called with, as for :func:`jacobian`.
        v: The cotangent: in the structure and shapes of y. It is taken in y's dtype.
        argnums: The input, or the inputs, to differentiate with respect to.
        has_aux: f returns ``(y, aux)``, and so the product and aux come back, as a tuple.

    Returns:
        What is in the structure and shapes of x, on its device, zero where y does not
        depend on x. It is differentiable again, unless ``torch.no_grad()`` is on.

    Raises:
        TypeError: f, an input, an output or v is of the wrong kind or dtype, or complex.
        ValueError: v has not the structure and shapes of y.
        RuntimeError: f changes an input in place, or a transform of ``torch.func`` is on.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> f = lambda x: torch.stack([x.sum(), (x**2).sum()])
        >>> pullback.vjp(f, x, v=torch.tensor([10.0, 1.0]))
        tensor([12., 14., 16.])
    """
    if has_aux:
        J, aux = _with_aux(f, lambda f: _JacobianOf(f, inputs, argnums))
        return J.T.product("v", v), aux
    return _JacobianOf(f, inputs, argnums).T.product("v", v)


def jvp(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    u: Any,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
) -> Any:
    r"""Return the Jacobian-vector product :math:`Ju`, in the shape of y.

    It is the rate at which y changes when x moves along u. f runs once, with tangents
    (:func:`torch.func.jvp`). Where an operation has no rule for them, and for a tensor y,
    it is the derivative of :math:`v\mapsto J^\top v`, two reverse passes. Where a backward
    has no derivative either, all rows of J are taken, some at a time, which the logger
    ``"pullback"`` says at level INFO; fused attention runs in plain operations instead.

    Args:
        f: Function of the inputs, or a tensor y, as for :func:`vjp`.
        *inputs: What f is called with.
        u: The tangent: in the structure and shapes of x. It is taken in x's dtype.
        argnums: The input, or the inputs, that move.
        has_aux: f returns ``(y, aux)``, and so the product and aux come back, as a tuple.

    Returns:
        What is in the structure and shapes of y. It is differentiable again, unless
        ``torch.no_grad()`` is on.

    Raises:
        TypeError: f, an input, an output or u is of the wrong kind or dtype, or complex.
        ValueError: u has not the structure and shapes of x.
        RuntimeError: f changes an input in place, or a transform of ``torch.func`` is on.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> f = lambda x: torch.stack([x.sum(), (x**2).sum()])
        >>> pullback.jvp(f, x, u=torch.tensor([0.0, 0.0, 1.0]))
        tensor([1., 6.])
    """
    if has_aux:
        J, aux = _with_aux(f, lambda f: _JacobianOf(f, inputs, argnums))
        return J.product("u", u), aux
    return _JacobianOf(f, inputs, argnums).product("u", u)


def hvp(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    u: Any,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
) -> Any:
    r"""Return the Hessian-vector product :math:`Hu`, in the shape of x.

    It costs a small multiple of one gradient, whatever the size of H (Pearlmutter, *Fast
    exact multiplication by the Hessian*, Neural Computation 6, 1994). It is the vector-
    Jacobian product of the gradient, which is Hu because H is symmetric; where the second
    derivatives of f are not continuous, it is :math:`H^\top u`.

    Args:
        f: Function of the inputs that returns a tensor with one number; or that tensor,
            already computed from the inputs.
        *inputs: What f is called with, as for :func:`jacobian`.
        u: A direction: in the structure and shapes of x.
        argnums: The input, or the inputs, to differentiate with respect to.
        has_aux: f returns ``(y, aux)``, and so the product and aux come back, as a tuple.

    Returns:
        What is in the structure and shapes of x.

    Raises:
        TypeError: f, an input, the output or u is of the wrong kind or dtype, or complex.
        ValueError: f returns more than one number, or u has not the structure and
            shapes of x.
        RuntimeError: f changes an input in place, has no second derivative (see
            :func:`hessian`), or a transform of ``torch.func`` is on. The backward of a
            ``torch.autograd.Function`` that computes out of sight of torch, as in NumPy,
            is found here, where :func:`hessian` takes it for a constant.

    Examples:
        >>> import torch, pullback
        >>> x, u = torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0])
        >>> pullback.hvp(lambda x: x[0] * x[1] ** 2, x, u=u)
        tensor([0., 6.])

        Of a loss that is already computed:

        >>> w = torch.tensor([1.0, 3.0], requires_grad=True)
        >>> loss = w[0] * w[1] ** 2
        >>> pullback.hvp(loss, w, u=u).detach()
        tensor([0., 6.])
    """
    if has_aux:
        H, aux = _with_aux(f, lambda f: _HessianOf(f, inputs, argnums))
        return H.product("u", u), aux
    return _HessianOf(f, inputs, argnums).product("u", u)


def jacobian_operator(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
) -> Any:
    r"""Return J as an operator: ``J @ u`` and ``J.T @ v``, with J never formed.

    Args:
        f: Function of the inputs, or a tensor y, as for :func:`vjp`.
        *inputs: What f is called with. One that is changed in place, as by the step of an
            optimizer, is noticed at the next product. The values of what f captures are to
            stay while the operator is in use, too: f is called again for ``J @ u``.
        argnums: The input, or the inputs, to differentiate with respect to.
        has_aux: f returns ``(y, aux)``, and so the operator and aux, of this call, come
            back, as a tuple.

    Returns:
        An :class:`Operator` from x to y.

    Raises:
        TypeError: f, an input or an output is of the wrong kind or dtype, or complex.
        RuntimeError: f changes an input in place, or a transform of ``torch.func`` is on;
            at a product, an input was changed in place.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> J = pullback.jacobian_operator(torch.cumprod, x, 0)
        >>> J
        Operator of shape (3, 3): J, from x of shape (3,) to y of shape (3,)
        >>> J @ torch.tensor([1.0, 0.0, 0.0]), J.T @ torch.tensor([0.0, 0.0, 1.0])
        (tensor([1., 2., 6.]), tensor([6., 3., 2.]))
    """
    if has_aux:
        return _with_aux(f, lambda f: _JacobianOf(f, inputs, argnums))
    return _JacobianOf(f, inputs, argnums)


def hessian_operator(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
) -> Any:
    """Return H as an operator, which takes one pass through a kept graph a product.

    Args:
        f: Function of the inputs that returns a tensor with one number; or that tensor.
        *inputs: What f is called with.
        argnums: The input, or the inputs, to differentiate with respect to.
        has_aux: f returns ``(y, aux)``, and so the operator and aux, of this call, come
            back, as a tuple.

    Returns:
        An :class:`Operator` from x to x.

    Raises:
        TypeError, ValueError, RuntimeError: as :func:`hvp`; RuntimeError at a product, too,
            if an input was changed in place, as by the step of an optimizer.

    Examples:
        Newton's step, by conjugate gradients that see products alone:

        >>> import torch, pullback
        >>> from scipy.sparse.linalg import cg
        >>> f = lambda x: ((x - 3) ** 4).sum() + x.prod()
        >>> x = torch.zeros(2, dtype=torch.float64)
        >>> H, g = pullback.hessian_operator(f, x), torch.func.grad(f)(x)
        >>> step, failed = cg(H.to_scipy(), -g.numpy())
        >>> failed, torch.allclose(H @ torch.from_numpy(step), -g)
        (0, True)
    """
    if has_aux:
        return _with_aux(f, lambda f: _HessianOf(f, inputs, argnums))
    return _HessianOf(f, inputs, argnums)


def gauss_newton_operator(
    f: Callable[..., Any],
    *inputs: Any,
    loss: Callable[[Any], Tensor],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
) -> Any:
    r"""Return the Gauss–Newton matrix :math:`J^\top H_\ell J` of ``loss(f(x))``.

    J is the Jacobian of f and :math:`H_\ell` the Hessian of the loss with respect to its
    outputs. For a loss that is convex in them it has no negative eigenvalue, which the
    Hessian of a network may have (Schraudolph, *Fast curvature matrix-vector products for
    second-order gradient descent*, Neural Computation 14, 2002).

    Args:
        f: Function of the inputs: a network with what it is to be differentiated by.
        *inputs: What f is called with.
        loss: Function of what f returns that returns a tensor with one number.
        argnums: The input, or the inputs, to differentiate with respect to.
        has_aux: f returns ``(y, aux)``, as for :func:`jacobian_operator`; the loss gets y.

    Returns:
        An :class:`Operator` from x to x.

    Raises:
        TypeError, ValueError, RuntimeError: as :func:`hvp`; RuntimeError at a product, too,
            if an input was changed in place, as by the step of an optimizer.

    Examples:
        Of half a sum of squares it is J^T J:

        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0])
        >>> half = lambda y: (y**2).sum() / 2
        >>> G = pullback.gauss_newton_operator(torch.square, x, loss=half)
        >>> G @ torch.ones(2)
        tensor([ 4., 16.])
    """
    if has_aux:
        return _with_aux(f, lambda f: _GaussNewtonOf(f, inputs, argnums, loss))
    return _GaussNewtonOf(f, inputs, argnums, loss)


def _with_aux(f: Any, make: Callable[[Any], _JacobianOf | _HessianOf]) -> tuple[Any, Any]:
    """Return the operator, and what f returned beside its output at the inputs."""
    alone, kept = without_aux(f)
    operator = make(alone)
    return operator, kept[0] if operator.again else detached(kept[0])


class Operator:
    """A matrix that is known by its products alone.

    It is applied to what has the structure and shapes of x, such as the dict of a module's
    parameters, and gives what has those of y.

    Attributes:
        name: ``"J"``, ``"H"`` or ``"G"``, with ``.T`` if transposed.
        shape: Numbers in y and numbers in x, as of a matrix.
    """

    def __init__(self, name: str, x: _Side, y: _Side, forth: Product, back: Product):
        self.name = name
        self.shape = y.size, x.size
        self._x, self._y, self._forth, self._back = x, y, forth, back

    @property
    def T(self) -> Operator:  # noqa: N802 (as of a tensor)
        """The transpose."""
        name = (
            self.name.removesuffix(".T") if self.name.endswith(".T") else f"{self.name}.T"
        )
        return Operator(name, self._y, self._x, self._back, self._forth)

    def __matmul__(self, u: Any) -> Any:
        """Return the product with u, which is in the structure and shapes of x."""
        return self.product("u", u)

    def product(self, name: str, u: Any) -> Any:
        """Return the product with u, which errors call by its name."""
        return self._y.tree(self._forth(self._x.leaves(name, u)))

    def to_scipy(self) -> LinearOperator:
        """Return a ``scipy.sparse.linalg.LinearOperator`` for flat NumPy vectors.

        x and y are flattened, a tensor after the other; the dtype is that of x. No
        product keeps a graph.

        Raises:
            ImportError: SciPy is not installed.
            TypeError: x or y is bfloat16, which NumPy lacks.
        """
        from scipy.sparse.linalg import LinearOperator

        def through(side: _Side, other: _Side, product: Product) -> Callable[[Any], Any]:
            def flat(numbers: Any) -> Any:
                with torch.no_grad():
                    return other.flat(product(side.split(torch.as_tensor(numbers)))).numpy()

            return flat

        dtype = self._x.like[0].new_empty(0, device="cpu").numpy().dtype
        return LinearOperator(
            self.shape,
            matvec=through(self._x, self._y, self._forth),
            rmatvec=through(self._y, self._x, self._back),
            dtype=dtype,
        )

    def __repr__(self) -> str:
        x, y = self._x, self._y
        return (
            f"Operator of shape {self.shape}: {self.name}, from {x.name} of {x.shapes()} "
            f"to {y.name} of {y.shapes()}"
        )


class _Side:
    """What stands at one end of an operator: tensors in a structure."""

    def __init__(self, name: str, like: list[Tensor], structure: pytree.TreeSpec) -> None:
        self.name, self.like, self.structure = name, [t.detach() for t in like], structure
        self.size = sum(t.numel() for t in like)

    def shapes(self) -> str:
        if len(self.like) == 1:
            return f"shape {tuple(self.like[0].shape)}"
        return "shapes " + ", ".join(str(tuple(t.shape)) for t in self.like)

    def leaves(self, name: str, value: Any) -> list[Tensor]:
        """Return the tensors in the value, once they are like those here."""
        found, structure = flatten(value)
        if structure != self.structure:
            raise ValueError(
                f"{name} is {_counted(value, found)} and {self.name} is "
                f"{_counted(self.tree(self.like), self.like)}; the structure of "
                f"{self.name} is needed (to_scipy() of an operator takes flat vectors)"
            )
        for t, like in zip(found, self.like, strict=True):
            if not isinstance(t, Tensor):
                more = " (to_scipy() of an operator takes arrays of NumPy)"
                raise TypeError(
                    f"{name} is {kind_of(t)}; a tensor is needed"
                    f"{more if hasattr(t, '__array__') else ''}"
                )
            check_real(name, t)
            if t.shape != like.shape:
                raise ValueError(
                    f"{name} has shape {tuple(t.shape)} and {self.name} has shape "
                    f"{tuple(like.shape)}; the same shape is needed"
                )
        check_devices(self.like, found)
        return [t.to(like.dtype) for t, like in zip(found, self.like, strict=True)]

    def tree(self, leaves: Sequence[Tensor]) -> Any:
        return self.structure.unflatten(list(leaves))

    def split(self, numbers: Tensor) -> list[Tensor]:
        """Return a flat vector cut into tensors like those here."""
        parts = numbers.reshape(-1).split([t.numel() for t in self.like])
        return [p.to(t).reshape(t.shape) for p, t in zip(parts, self.like, strict=True)]

    def flat(self, leaves: Sequence[Tensor]) -> Tensor:
        """Return the numbers of the tensors, one after the other, on the CPU."""
        return torch.cat([t.detach().reshape(-1).cpu() for t in leaves])


class _Inputs:
    """The inputs of an operator, which are to keep their values.

    A tensor in place of f has its graph, in which torch sees itself what was changed.
    """

    def __init__(self, function: CalledFunction) -> None:
        found = [] if function.computed else pytree.tree_leaves(tuple(function.inputs))
        self._inputs = function.inputs
        self._tensors = [t for t in found if isinstance(t, Tensor)]
        self._versions = [version(t) for t in self._tensors]

    def check(self) -> None:
        """Raise RuntimeError if one was written into."""
        for k, (t, count) in enumerate(zip(self._tensors, self._versions, strict=True)):
            if version(t) != count:
                name = named_tensors(self._inputs)[k][0]
                raise RuntimeError(
                    f"{name} was changed in place after the operator was made, which is "
                    "that of the former values; a new operator is needed, or one that is "
                    "made from clones, which keep them"
                )


def _counted(value: Any, leaves: Sequence[Any]) -> str:
    kind = kind_of(value)
    if isinstance(value, Tensor) or not all(isinstance(t, Tensor) for t in leaves):
        return kind
    return f"{kind} of {len(leaves)} tensor{'s' if len(leaves) > 1 else ''}"


class _JacobianOf(Operator):
    """J of a function at its inputs, or of a tensor."""

    def __init__(self, f: Any, inputs: Sequence[Any], argnums: int | tuple[int, ...]):
        check_no_transform()
        self._function = function_or_tensor(f, inputs, argnums)
        check_all_real("an input", self._function.xs)
        self._kept = _Inputs(self._function)
        with self._function.keep_grads():
            self._graph = self._function.record()
        check_all_real("an output", self._graph.ys)
        super().__init__(
            "J",
            _side_of_inputs(self._function),
            _Side("y", self._graph.ys, self._graph.structure),
            self._push,
            self._pull,
        )

    @property
    def again(self) -> bool:
        """Whether the products may be differentiated."""
        return self._graph.again

    def _pull(self, vs: Sequence[Tensor]) -> list[Tensor]:
        self._kept.check()
        graph = self._graph
        again = graph.again and torch.is_grad_enabled()
        with self._function.keep_grads():
            found = pull_through(graph.ys, graph.xs, again)(*vs)
        return graph.cut(found) if again else list(found)

    def _push(self, us: Sequence[Tensor]) -> list[Tensor]:
        self._kept.check()
        function = self._function
        try:
            return self._push_once(us, self._graph)
        except RuntimeError as error:
            fused = stops_at_fused_attention(error)
            reason = str(error).partition("\n")[0]
        if fused and not function.computed:
            with plain_attention():
                try:
                    return self._push_once(us, function.record())
                except RuntimeError as error:
                    reason = str(error).partition("\n")[0]
        logger.info("J u is computed from all rows of J, for without it raises: %s", reason)
        return _push_by_rows(self._graph, us, function)

    def _push_once(self, us: Sequence[Tensor], graph: Recorded) -> list[Tensor]:
        """Return J u by tangents, or where an operation has no rule, by two pulls."""
        function = self._function
        if not function.computed:
            xs = [x.contiguous() for x in function.xs]
            try:
                tangents = pytree.tree_leaves(function.push(xs, us)[1])
            except RuntimeError:  # an operation has no rule for tangents
                pass
            else:
                if any(t.is_meta or t.any() for t in tangents) or not self._loses_tangents(
                    us
                ):
                    return graph.cut([t if graph.again else t.detach() for t in tangents])
        return _push_by_pulling(graph, us, function)

    def _loses_tangents(self, us: Sequence[Tensor]) -> bool:
        """Tell whether forward mode has lost the tangents, for v^T J u is not zero.

        It does in operations that compute their own derivative in the forward pass.
        """
        with torch.no_grad():
            rows = self._pull(ramps(self._y.like))
            return any(bool((r * u).any()) for r, u in zip(rows, us, strict=True))


def _push_by_pulling(
    graph: Recorded, us: Sequence[Tensor], function: CalledFunction
) -> list[Tensor]:
    """Return J u as the derivative of v -> J^T v, which is linear, so any v will do.

    Raises:
        RuntimeError: a backward has no derivative, or one that leaves out what is computed
            out of sight, as in NumPy.
    """
    again = graph.again and torch.is_grad_enabled()
    with torch.enable_grad(), function.keep_grads():
        vs, rows = pulled(graph.ys, graph.xs)
        reach([*rows], vs).check_whole()
        found = list(pull_through(rows, vs, again)(*us))
    if any(t.is_meta for t in rows):
        return found
    with torch.no_grad():  # v^T (J u) is (J^T v)^T u
        left = [a * b for a, b in zip(found, vs, strict=True)]
        right = [a * b for a, b in zip(rows, us, strict=True)]
        gap = abs(sum(float(t.sum()) for t in left) - sum(float(t.sum()) for t in right))
        size = sum(float(t.abs().sum()) for t in (*left, *right))
    if gap > size * max(torch.finfo(t.dtype).eps for t in (*rows, *found)) ** 0.5:
        raise RuntimeError("the derivative of v -> J^T v is not J; a backward hides it")
    return found


def _push_by_rows(
    graph: Recorded, us: Sequence[Tensor], function: CalledFunction
) -> list[Tensor]:
    """Return J u from every row of J, some at a time: what every f can do."""
    again = graph.again and torch.is_grad_enabled()
    bytes_each = sum(t.nbytes for t in (*graph.xs, *graph.ys))
    take = Together(pull_through(graph.ys, graph.xs, again), 1 if graph.alone else None)
    found = []
    with function.keep_grads():
        for _, _, rows in rows_in_chunks(take, graph.ys, bytes_each):
            terms = [(r * u).flatten(1).sum(1) for r, u in zip(rows, us, strict=True)]
            found.append(torch.stack(terms).sum(0))
    flat = torch.cat(found) if found else graph.ys[0].new_zeros(0)
    parts = flat.split([y.numel() for y in graph.ys])
    found = [p.to(y).reshape(y.shape) for p, y in zip(parts, graph.ys, strict=True)]
    return graph.cut(found) if again else found


class _HessianOf(Operator):
    """H of one number, by its gradient's graph, made once."""

    def __init__(self, f: Any, inputs: Sequence[Any], argnums: int | tuple[int, ...]):
        check_no_transform()
        self._function = function_or_tensor(f, inputs, argnums)
        check_all_real("an input", self._function.xs)
        self._kept = _Inputs(self._function)
        self._graph, self._slope = self._differentiated()
        side = _side_of_inputs(self._function)
        super().__init__("H", side, side, self.through, self.through)

    @property
    def again(self) -> bool:
        """Whether the products may be differentiated."""
        return self._graph.again

    def through(self, us: Sequence[Tensor]) -> list[Tensor]:
        """Return H u."""
        self._kept.check()
        try:
            return self._product(us)
        except RuntimeError as error:
            if self._function.computed or not stops_at_fused_attention(error):
                raise
        with plain_attention():
            self._graph, self._slope = self._differentiated()
        return self._product(us)

    def _differentiated(self) -> tuple[Recorded, list[Tensor]]:
        """Return the graph of the number, and its gradient with a graph."""
        with self._function.keep_grads():
            graph = self._function.record()
            check_twice(graph.ys, graph.xs)
            slope = _gradient(self._function.output_name, graph.ys, graph.xs)
            reach(slope, graph.xs).check_whole()
            return graph, slope

    def _product(self, us: Sequence[Tensor]) -> list[Tensor]:
        again = self._graph.again and torch.is_grad_enabled()
        with self._function.keep_grads():
            return list(pull_through(self._slope, self._graph.xs, again)(*us))


class _GaussNewtonOf(_JacobianOf):
    """J^T H J, of a function and the Hessian of a loss of its outputs."""

    def __init__(
        self,
        f: Any,
        inputs: Sequence[Any],
        argnums: int | tuple[int, ...],
        loss: Callable[[Any], Tensor],
    ) -> None:
        super().__init__(f, inputs, argnums)
        value = self._graph.structure.unflatten([y.detach() for y in self._graph.ys])
        curvature = _HessianOf(loss, (value,), 0)

        def through(us: Sequence[Tensor]) -> list[Tensor]:
            return self._pull(curvature.through(self._push(us)))

        Operator.__init__(self, "G", self._x, self._x, through, through)


def _side_of_inputs(function: CalledFunction) -> _Side:
    structure = flatten(function.like_inputs(function.xs))[1]
    return _Side("x", function.xs, structure)


def _gradient(name: str, ys: list[Tensor], xs: list[Tensor]) -> list[Tensor]:
    """Return the gradient of the one number in ys, with its graph."""
    check_all_real(name, ys)
    if len(ys) != 1 or ys[0].numel() != 1:
        shapes = ", ".join(str(tuple(y.shape)) for y in ys)
        raise ValueError(f"{name} has shape {shapes}; one number is needed for a Hessian")
    # the gradient is linear in this one, so that a part of it that has no graph is hidden
    one = torch.ones_like(ys[0], requires_grad=True)
    with torch.enable_grad(), hidden_backwards(ys) as hidden:
        slope = list(pull_through(ys, xs, create_graph=True)(one))
    if hidden:
        raise RuntimeError(refusal(f"the backward of {hidden[0]} computes out of sight"))
    return slope
