"""Messages about the arguments, dimensions and results of ``torch.vmap``."""

from pullback._messages._entry import Message, Theme

VMAP = Theme(
    "vmap",
    (
        Message(
            anchor="expected-4d-input",
            title="expected 4D input (got 3D input)",
            kinds=("ValueError",),
            patterns=(
                r"expected (?P<expected>\dD(?: or \dD)?) input \(got (?P<got>\dD) input\)",
            ),
            why="""A normalisation layer insists on its number of dimensions, the batch
                among them, and got another: one sample, or the inside of a `vmap`, where a
                function sees one sample at a time; or the layer is of another kind.""",
            fix="""The layer got {got} and wants {expected}: give a single sample a batch of
                one, `f(x.unsqueeze(0)).squeeze(0)`.""",
            tell=(
                "Inside `vmap`, `vmap(jacrev(f))`: `unsqueeze(0)`, with the layer in "
                "`eval()`: a batch of one has no variance.",
                "Without `vmap`: your data lacks its batch or its channel dimension.",
                "Two dimensions are missing, or there are too many: the layer is the wrong "
                "one, `BatchNorm1d` after a `Linear` layer, `BatchNorm2d` for images.",
            ),
            broken="""
                import torch

                norm = torch.nn.BatchNorm2d(2).eval()
                torch.vmap(norm)(torch.ones(3, 2, 4, 4))
                """,
            fixed="""
                import torch

                norm = torch.nn.BatchNorm2d(2).eval()
                one = lambda x: norm(x.unsqueeze(0)).squeeze(0)
                result = torch.vmap(one)(torch.ones(3, 2, 4, 4))
                torch.testing.assert_close(result, norm(torch.ones(3, 2, 4, 4)))
                print(result.shape)
                """,
            see=("jacobian-per-sample",),
            source=("FT#867", "PT#96655"),
        ),
        Message(
            anchor="dimension-inside-vmap",
            title="Dimension out of range (expected to be in range of [-1, 0], but got 1)",
            kinds=("IndexError",),
            patterns=(
                r"Dimension out of range \(expected to be in range of "
                r"\[-\d+, \d+\], but got (?P<got>-?\d+)\)",
                r"too many indices for tensor of dimension \d+",
            ),
            older=("too many indices for tensor of dimension 1",),
            unknown={"got": "from the front"},
            only_line=r"vmap|jac(?:rev|fwd)|hessian",
            why="""An operation was asked for a dimension that its tensor lacks. Inside
                `vmap` the function sees one sample, without the batch dimension: what is
                dimension 1 of the batch is dimension 0 there.""",
            fix="""Count from the end, `dim=-1`, instead of {got}: the last dimension is the
                same with a batch in front and without.""",
            tell=(
                "You wrote no `dim`: `F.normalize`, `F.cosine_similarity` and `nn.Flatten` "
                "take dimension 1 unless told otherwise. Pass `dim=-1` (`nn.Flatten(0)`).",
                "`too many indices`: `x[:, 0]` of one sample is `x[0]`; `x[..., 0]` serves "
                "both.",
                "`jacrev(f)` works on the batch and `vmap(jacrev(f))` does not: write `f` "
                "for one sample.",
                "`nn.Softmax(dim=1)`, `torch.cat(parts, 1)`, `t.sum(1)`, `t.flatten(1)` in "
                "a model: the same; or give the sample a batch of one, "
                "`f(x.unsqueeze(0)).squeeze(0)`.",
                "No `vmap` in sight: an index or a sum took a dimension away before. Print "
                "`t.shape`.",
            ),
            broken="""
                import torch
                from torch.func import jacrev, vmap

                data = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
                vmap(jacrev(torch.nn.functional.normalize))(data)
                """,
            fixed="""
                import torch
                from torch.func import jacrev, vmap

                data = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
                unit = lambda x: torch.nn.functional.normalize(x, dim=-1)
                J = vmap(jacrev(unit))(data)
                u = unit(data)
                by_hand = torch.eye(2) - u[:, :, None] * u[:, None]
                torch.testing.assert_close(J, by_hand / data.norm(dim=1)[:, None, None])
                print(J)
                """,
            see=("jacobian-per-sample", "per-sample-gradients", "vmap-limits"),
            source=("PT#99187",),
        ),
        Message(
            anchor="vmap-in-dims",
            title="vmap: Got in_dim=0 for some input, but that input is a Tensor of "
            "dimensionality 0",
            kinds=("ValueError",),
            patterns=(
                r"(?<!vmap\(vjp, in_dims=0, \.\.\.\)\(<inputs>\): )"
                r"Got in_dim=(?P<dim>-?\d+) for some input, but that input is a Tensor of "
                r"dimensionality (?P<ndim>\d+)",
                r"vmap: Expected all tensors to have the same size in the mapped "
                r"dimension, got sizes (?P<sizes>\[[\d, ]*\])",
                r"in_dims is not compatible with the structure of `inputs`",
                r"expected `in_dims` to be int or a \(potentially nested\) tuple matching",
            ),
            older=(
                "vmap(f, in_dims=[0, None], ...)(<inputs>): expected `in_dims` to be int "
                "or a (potentially nested) tuple matching the structure of inputs, got: "
                "<class 'list'>.",
                "in_dims is not compatible with the structure of `inputs`. in_dims has "
                "structure TreeSpec(tuple, None, [*]) but inputs has structure",
                "vmap: Expected all tensors to have the same size in the mapped dimension, "
                "got sizes [2, 3] for the mapped dimension",
                "vmap(f, in_dims=(0,), ...)(<inputs>): in_dims is not "
                "compatible with the structure of `inputs`. in_dims has "
                "structure TreeSpec(tuple, None, [*]) but inputs has structure "
                "TreeSpec(tuple, None, [*, *]).",
            ),
            why="""`vmap` takes one dimension off every argument, of the same length. An
                argument without that dimension, or of another length, does not fit. Each
                `vmap` takes off one dimension: two of them need two.""",
            fix="""Say which arguments are batched, with one entry for each:
                `torch.vmap(f, in_dims=(0, None))` passes the second one whole to every
                call, `(None, 0)` the first.""",
            tell=(
                "A number or a weight that all samples share: None in its place.",
                "Parameters in a dict for `functional_call`: `in_dims=(None, 0)`.",
                "`vmap(vmap(f))` of a vector: each of them needs a dimension of its own.",
                "Lengths differ: one argument has its batch elsewhere, `in_dims=(0, 1)`.",
                "`got: <class 'list'>`: a list in place of the tuple.",
                "`in_dims is not compatible with the structure`: one entry of "
                "`in_dims` for each argument, in a tuple; a dict of parameters "
                "has a dict, or one number for all of it.",
            ),
            broken="""
                import torch

                scale = torch.tensor(3.0)
                torch.vmap(lambda x, scale: x * scale)(torch.ones(4), scale)
                """,
            fixed="""
                import torch

                scale = torch.tensor(3.0)
                f = lambda x, scale: x * scale
                result = torch.vmap(f, in_dims=(0, None))(torch.ones(4), scale)
                assert torch.equal(result, torch.full((4,), 3.0))
                print(result)
                """,
            see=("vmap-limits", "batched-v"),
            source=("JAX#28110", "torch/_functorch/vmap.py"),
        ),
        Message(
            anchor="vmap-returns-tensors",
            title="vmap(<lambda>, ...): `<lambda>` must only return Tensors, got type "
            "<class 'float'>",
            kinds=("ValueError",),
            patterns=(
                r"vmap\(.{0,80}?, \.\.\.\): `.{0,80}?` must only return Tensors, got type "
                r"<class '(?P<type>[^']+)'",
            ),
            why="""`vmap` stacks what each sample returns, and only tensors can be
                stacked.""",
            fix="""Among what it returned is `{type}`: make that a tensor or leave it out. A
                value that is the same for all samples: `out_dims=(0, None)`, with None in
                its place.""",
            unknown={"type": "something else"},
            tell=(
                "`NoneType`: the `return` is missing.",
                "`float`, `str`: None in `out_dims` hands it through.",
                "`numpy.ndarray`: write that part with torch.",
            ),
            broken="""
                import torch

                f = lambda x: (x**2, 3.0)
                torch.vmap(f)(torch.tensor([1.0, 2.0]))
                """,
            fixed="""
                import torch

                f = lambda x: (x**2, 3.0)
                squares, three = torch.vmap(f, out_dims=(0, None))(torch.tensor([1.0, 2.0]))
                assert squares.tolist() == [1.0, 4.0] and three == 3.0
                print(squares, three)
                """,
            see=("batched-v", "vmap-limits"),
            source=("torch/_functorch/vmap.py",),
        ),
        Message(
            anchor="vmap-non-tensor-arguments",
            title="Got in_dim=0 for an input but the input is of type <class 'int'>. We "
            "cannot vmap over non-Tensor arguments",
            kinds=("ValueError",),
            patterns=(
                r"the input is of type <class '(?P<type>[^']+)'>\. We cannot vmap over "
                r"non-Tensor arguments",
                r"vmap\(.{0,80}?\)\(<inputs>\): got no inputs",
                r"vmap: Expected at least one Tensor to vmap over",
            ),
            older=(
                "vmap(f)(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
                "are trying to vmap over a function with no inputs.",
            ),
            why="""Every argument is taken apart along a dimension, unless `in_dims` says
                None for it, and a number has no dimension.""",
            fix="""For an argument that is no tensor ({type}) write None in its place,
                `in_dims=(0, None)`, or pass it by keyword. At least one tensor goes in by
                position, to be taken apart.""",
            unknown={"type": "a number, a string, None"},
            tell=(
                "`int`, `str`, `NoneType`, a module: None in `in_dims`.",
                "`numpy.ndarray`: `torch.as_tensor(array)`.",
                "`got no inputs`: all arguments were given by keyword; a tensor given so "
                "is taken apart along its first dimension.",
            ),
            broken="""
                import torch

                torch.vmap(torch.pow)(torch.tensor([1.0, 2.0, 3.0]), 2)
                """,
            fixed="""
                import torch

                square = torch.vmap(torch.pow, in_dims=(0, None))
                result = square(torch.tensor([1.0, 2.0, 3.0]), 2)
                assert result.tolist() == [1.0, 4.0, 9.0]
                print(result)
                """,
            see=("batched-v", "vmap-limits"),
            source=("torch/_functorch/vmap.py",),
        ),
        Message(
            anchor="vmap-out-dims",
            title="vmap(<lambda>, ...): `<lambda>` can not return a BatchedTensor when "
            "out_dim is None",
            kinds=("ValueError",),
            patterns=(
                r"can not return a BatchedTensor when out_dim is None",
                r"out_dims is not compatible with the structure of `outputs`",
            ),
            older=(
                "vmap(f, ..., out_dims=(0, 0))(<inputs>): out_dims is not compatible with "
                "the structure of `outputs`.",
            ),
            why="""`out_dims` says where the samples stand in each result. `None` promises a
                result that is the same for all samples, and this one differs; a tuple wants
                as many results as it has entries.""",
            fix="""Leave `out_dims` out: the samples then come first in every result. One
                number counts for all results, a tuple for one each.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                torch.vmap(lambda x: x**2, out_dims=None)(x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                y = torch.vmap(lambda x: x**2)(x)
                assert torch.equal(y, x**2)
                print(y)
                """,
            see=("batched-v", "error-vmap-in-dims"),
            source=("torch/_functorch/vmap.py",),
        ),
    ),
)
