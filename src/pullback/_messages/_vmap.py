"""Messages of ``torch.vmap``."""

from pullback._messages._entry import Message, Theme

VMAP = Theme(
    "vmap",
    (
        Message(
            anchor="vmap-data-dependent",
            title="vmap: It looks like you're attempting to use a Tensor in some "
            "data-dependent control flow",
            patterns=(
                r"vmap: It looks like you're attempting to use a Tensor in some "
                r"data-dependent control flow",
            ),
            why="""Under `vmap` the function runs once, on all samples together. An `if` or
                `while` on a tensor's value would have to go both ways at once.""",
            fix="""Compute both branches and choose with `torch.where(condition, a, b)`, or
                loop over the samples. When the `if` is in a custom Function's `backward`,
                `jacrev(f, chunk_size=1)` loops for you.""",
            tell=(
                "`if`, `while`, `assert`, `x or y` on a tensor: `torch.where`. Where the "
                "other branch is nan or inf, make its input harmless first: its gradient "
                "comes through as nan.",
                "Python's `max(a, b)`: `torch.maximum(a, b)`.",
                "A check such as `if x.isnan().any(): raise`: move it out of the `vmap`.",
            ),
            broken="""
                import torch

                absolute = lambda x: x if x > 0 else -x
                torch.vmap(absolute)(torch.tensor([-1.0, 2.0]))
                """,
            fixed="""
                import torch

                absolute = lambda x: torch.where(x > 0, x, -x)
                result = torch.vmap(absolute)(torch.tensor([-1.0, 2.0]))
                assert torch.equal(result, torch.tensor([1.0, 2.0]))
                print(result)
                """,
            see=("vmap-limits", "batched-v", "masked-nan"),
            source=("FT#257",),
        ),
        Message(
            anchor="vmap-item",
            title="vmap: It looks like you're calling .item() on a Tensor",
            patterns=(
                r"vmap: It looks like you're calling \.item\(\) on a Tensor",
                r"vmap: It looks like you're either \(1\) calling \.item\(\) on "
                r"a Tensor",
            ),
            older=(
                "vmap: It looks like you're either (1) calling .item() on a "
                "Tensor or (2) attempting to use a Tensor in some "
                "data-dependent control flow or (3) encountering this error in "
                "PyTorch internals.",
            ),
            why="""`.item()`, `float(t)` or `int(t)` wants one number, and under `vmap`
                there is one for each sample.""",
            fix="""Keep the tensor: `t * x` works with a 0-dimensional tensor where a number
                would, and so does `x[i]`. For sizes take what does not depend on the sample
                out of the function.""",
            tell=(
                "`torch.tensor([a, b])` of tensors: `torch.stack([a, b])`.",
                "`x[int(i)]`: `x[i]`. A slice `x[:i]` would have another length for each "
                "sample: `torch.where(torch.arange(n) < i, x, 0)`.",
                "A window `x[i:i+2]`, whose bounds become Python numbers: "
                "`x[i + torch.arange(2)]`.",
                'A number in a string, `f"{t:.2f}"`: print outside the `vmap`.',
            ),
            broken="""
                import torch

                torch.vmap(lambda x: x * float(x))(torch.tensor([1.0, 2.0]))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                result = torch.vmap(lambda x: x * x)(x)
                assert torch.equal(result, x**2)
                print(result)
                """,
            see=("vmap-limits", "batched-v"),
            source=("FT#257", "FT#770"),
        ),
        Message(
            anchor="vmap-dynamic-shape",
            title="vmap: We do not support batching operators that can output dynamic "
            "shape",
            patterns=(
                r"vmap: We do not support batching operators that can (?:support|output) "
                r"dynamic shape",
                r"We cannot support this because for each batch this would return a "
                r"differently shaped Tensor",
                r"When vmap-ing torch\.nn\.functional\.one_hot, please provide an explicit",
            ),
            older=(
                "When vmap-ing torch.nn.functional.one_hot, please provide an explicit "
                "positive num_classes argument.",
                "vmap: We do not support batching operators that can support dynamic "
                "shape. Attempting to batch over indexing with a boolean mask.",
            ),
            why="""`x[mask]`, `nonzero`, `unique` give results whose length depends on the
                values; the samples' results could not be stacked.""",
            fix="""Keep the shape and put zeros where the mask is False:
                `torch.where(mask, x, 0)`, and divide by `mask.sum()` for a mean. For
                `x[mask] = a` write `x = torch.where(mask, a, x)`. Tell `one_hot` its
                `num_classes`.""",
            broken="""
                import torch

                x = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
                torch.vmap(lambda row: row[row > 0].sum())(x)
                """,
            fixed="""
                import torch

                x = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
                result = torch.vmap(lambda row: torch.where(row > 0, row, 0).sum())(x)
                assert torch.equal(result, torch.tensor([1.0, 7.0]))
                print(result)
                """,
            see=("vmap-limits", "batched-v"),
            source=("FT#257", "aten/src/ATen/functorch (BatchRulesDynamic.cpp)"),
        ),
        Message(
            anchor="vmap-randomness",
            title="vmap: called random operation while in randomness error mode",
            patterns=(
                r"vmap: called random operation while in randomness error mode",
                r"vmap: We do not yet support calling random operations inside "
                r"of vmap",
                r"Vmap does not currently support same randomness with a batched "
                r"tensor input",
            ),
            older=(
                "vmap: We do not yet support calling random operations inside "
                "of vmap. Please perform random operations outside of vmap as a "
                "workaround",
                "Vmap does not currently support same randomness with a batched "
                "tensor input. Please file an issue with functorch",
            ),
            why="""Dropout or `torch.rand` inside `vmap`: should all samples get the same
                random numbers, or each its own? torch asks.""",
            fix="""`torch.vmap(f, randomness="different")` for each its own, `"same"` for
                all the same; or `model.eval()` when dropout is not wanted; or draw the
                numbers outside and pass them in. For a Jacobian only
                `jacfwd(f, randomness="same")` is right.""",
            tell=(
                "`vmap` over samples: `different`, as in an ordinary batch.",
                "`jacfwd`: it runs f in a `vmap` over the columns. With `different` each "
                "column would be that of another function.",
                '`hessian(f)` has no such option: `jacfwd(jacrev(f), randomness="same")`.',
            ),
            broken="""
                import torch

                torch.vmap(lambda x: x + torch.rand(()))(torch.zeros(3))
                """,
            fixed="""
                import torch

                torch.manual_seed(0)  # any seed: three draws differ
                noisy = lambda x: x + torch.rand(())
                result = torch.vmap(noisy, randomness="different")(torch.zeros(3))
                assert result.unique().numel() == 3
                print(result)
                """,
            see=("vmap-limits", "batched-v"),
            source=("PT#84220",),
        ),
        Message(
            anchor="batch-norm-under-vmap",
            title="Batch norm got a batched tensor as input while the running_mean or "
            "running_var, which will be updated in place, were not batched",
            patterns=(
                r"Batch norm got a batched tensor as input while the running_mean or "
                r"running_var",
            ),
            why="""Under `vmap`, BatchNorm would update one running mean from many samples
                at once, each with its own batch.""",
            fix="""`model.eval()`, or BatchNorm with `track_running_stats=False`
                (`torch.func.replace_all_batch_norm_modules_(model)` sets it everywhere), or
                another norm: where BatchNorm mixes the samples of a batch, none of them has
                a gradient of its own.""",
            tell=(
                "Gradients for each sample: `eval()`, or a norm over one sample "
                "(`GroupNorm`, `LayerNorm`). A batch of one has no variance.",
                "Several models at once: pass the buffers through `functional_call`, one "
                "set for each model.",
            ),
            broken="""
                import torch

                norm = torch.nn.BatchNorm1d(2)
                torch.vmap(norm)(torch.ones(3, 4, 2))
                """,
            fixed="""
                import torch

                norm = torch.nn.BatchNorm1d(2)
                torch.func.replace_all_batch_norm_modules_(norm)
                result = torch.vmap(norm)(torch.ones(3, 4, 2))
                assert torch.equal(result, torch.zeros(3, 4, 2))
                print(result.shape)
                """,
            see=("per-sample-gradients", "functional-buffers", "mixing-samples"),
            source=("PT#85533", "FT#867"),
        ),
        Message(
            anchor="expected-4d-input",
            title="expected 4D input (got 3D input)",
            kinds=("ValueError",),
            patterns=(
                r"expected (?P<expected>\dD(?: or \dD)?) input \(got (?P<got>\dD) input\)",
            ),
            why="""A normalisation layer insists on its batch dimension, and got a tensor
                without it: one sample, or the inside of a `vmap`, where a function sees one
                sample at a time.""",
            fix="""The layer got {got} and wants {expected}: give a sample a batch of one,
                `f(x.unsqueeze(0)).squeeze(0)`.""",
            tell=(
                "Inside `vmap`, `vmap(jacrev(f))`: `unsqueeze(0)`, with the layer in "
                "`eval()`: a batch of one has no variance.",
                "Without `vmap`: your data lacks its batch or its channel dimension.",
                "Two dimensions are missing: the layer is the wrong one, `BatchNorm1d` "
                "after a `Linear` layer.",
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
            anchor="vmap-performance-drop",
            title="There is a performance drop because we have not yet implemented the "
            "batching rule for aten::",
            kinds=("UserWarning",),
            patterns=(
                r"There is a performance drop because we have not yet implemented the "
                r"batching rule for (?P<operation>[\w:.]*\w)",
                r"Batching rule not implemented for (?P<operation>[\w:.]*\w) "
                r"falling back to slow",
            ),
            older=(
                "Batching rule not implemented for aten::gather_backward "
                "falling back to slow (for loop and stack) implementation",
            ),
            why="""`vmap` has no rule for that operation, so it loops over the samples. The
                result is right, and as slow as a loop.""",
            fix="""Nothing needs to be done for correctness. For speed, replace
                {operation} by operations that have a rule.""",
            broken="""
                import torch

                torch.vmap(torch.bincount)(torch.tensor([[0, 1], [1, 1]]))
                """,
            fixed="""
                import torch

                counts = lambda x: torch.nn.functional.one_hot(x, 2).sum(0)
                result = torch.vmap(counts)(torch.tensor([[0, 1], [1, 1]]))
                assert result.tolist() == [[1, 1], [0, 2]]
                print(result)
                """,
            see=("vmap-limits", "batched-v"),
            source=("PT#122432",),
        ),
        Message(
            anchor="batching-rule-not-implemented",
            title="Batching rule not implemented for aten::lstm.input. We could not "
            "generate a fallback",
            patterns=(
                r"Batching rule not implemented for (?P<operation>[\w:.]*\w)\. We could "
                r"not generate a fallback",
                r"(?<!gradients, got: )Batching rule not implemented for "
                r"(?P<operation>[\w:.]*\w); "
                r"the fallback path doesn't work",
                r"(?P<operation>[\w:.]*\w) hit the vmap fallback which is "
                r"currently disabled",
                r"vmap over (?P<operation>torch\.[\w.]*\w) isn't supported yet",
            ),
            tell=(
                "`aten::equal`, `torch.allclose`, `aten::is_nonzero`: Python wants one "
                "answer for all samples; compute with the Boolean tensor, `(a == "
                "b).all()`.",
                "The name ends in `.out`: drop `out=` and use what the function returns.",
                "`aten::lstm`, a fused layer: a loop, or its own batch dimension.",
            ),
            older=(
                "Batching rule not implemented for aten::unfold_backward; the "
                "fallback path doesn't work on out= or view ops.",
                "vmap: aten::_cudnn_rnn hit the vmap fallback which is currently disabled",
                "vmap over torch.allclose isn't supported yet.",
            ),
            why="""`vmap` has no rule for that operation and cannot loop over it either.""",
            fix="""Take {operation} out of the `vmap`: a Python loop over the samples, the
                operation's own batch dimension, or the same formula in basic
                operations.""",
            broken="""
                import torch

                lstm = torch.nn.LSTM(2, 1)
                torch.vmap(lambda x: lstm(x)[0])(torch.ones(3, 4, 2))
                """,
            fixed="""
                import torch

                lstm = torch.nn.LSTM(2, 1)
                x = torch.ones(3, 4, 2)
                looped = torch.stack([lstm(sample)[0] for sample in x])
                own = lstm(x.transpose(0, 1))[0].transpose(0, 1)  # its own batch dimension
                torch.testing.assert_close(looped, own)
                print(own.shape)
                """,
            see=("vmap-limits", "batched-v", "jacobian-per-sample"),
            source=("PT#122432",),
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
            anchor="vmap-inplace",
            title="vmap: inplace arithmetic(self, *extra_args) is not possible because "
            "there exists a Tensor `other` in extra_args that has more elements than "
            "`self`",
            patterns=(
                r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible",
                r"vmap: [\w:.]+\(self, \*extra_args\) is not possible because there "
                r"exists a Tensor `other`",
            ),
            older=(
                "vmap: aten::copy_(self, *extra_args) is not possible because there exists "
                "a Tensor `other` in extra_args that has more elements than `self`.",
            ),
            why="""`buffer = torch.zeros(n)` inside the function is one buffer and not one
                for each sample, and a sample's value is written into it. One memory cannot
                hold the values of all samples.""",
            fix="""Build the result without writing: `torch.stack([...])`, `torch.cat`,
                `torch.where`; or start from `torch.zeros_like(x)`, or `x.new_zeros(n)`,
                which are batched as `x` is.""",
            tell=(
                "`result[i] = ...` into zeros: `torch.stack` of the entries.",
                "`result += x` says *output with shape … doesn't match the broadcast shape "
                "…*: the cause is the same; write `result = result + x`.",
            ),
            broken="""
                import torch

                def f(x):
                    result = torch.zeros(2)
                    result[0] = x[1]
                    return result

                torch.vmap(f)(torch.ones(3, 2))
                """,
            fixed="""
                import torch

                def f(x):
                    return torch.stack([x[1], torch.zeros_like(x[0])])

                result = torch.vmap(f)(torch.ones(3, 2))
                assert torch.equal(result, torch.tensor([[1.0, 0.0]] * 3))
                print(result)
                """,
            see=("vmap-limits", "in-place"),
            source=("aten/src/ATen/functorch (BatchRulesHelper.cpp)",),
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
        Message(
            anchor="vmap-memory-format",
            title="NYI: querying is_contiguous inside of vmap for memory_format other than "
            "torch.contiguous_format",
            patterns=(
                r"NYI: querying is_contiguous inside of vmap for memory_format",
                r"NYI: Tensor\.(?:clone|contiguous)\([\w.]*\) inside (?:of )?vmap",
            ),
            older=(
                "NYI: Tensor.clone(memory_format) inside vmap is only supported with "
                "memory_format torch.preserve_format or torch.contiguous_format (got "
                "ChannelsLast)",
            ),
            why="""Inside `vmap` a tensor has one dimension more in memory than it shows,
                and `channels_last`, an order of four dimensions, has no meaning for
                it.""",
            fix="""Leave `memory_format=torch.channels_last` out of the function; it
                changes the speed and no number.""",
            broken="""
                import torch

                images = torch.ones(2, 1, 3, 4, 4)
                nhwc = torch.channels_last
                torch.vmap(lambda x: x.contiguous(memory_format=nhwc).sum())(images)
                """,
            fixed="""
                import torch

                images = torch.ones(2, 1, 3, 4, 4)
                sums = torch.vmap(lambda x: x.contiguous().sum())(images)
                assert sums.tolist() == [48.0, 48.0]
                print(sums)
                """,
            see=("vmap-limits",),
            source=("aten/src/ATen/functorch (BatchedTensorImpl.cpp)",),
        ),
        Message(
            anchor="vmap-inplace-random",
            title="vmap: Cannot ask for different inplace randomness on an unbatched "
            "tensor. This will appear like same randomness.",
            patterns=(
                r"vmap: Cannot ask for different inplace randomness on an unbatched tensor",
            ),
            why="""`normal_`, `uniform_` or `bernoulli_` fills a tensor that all samples
                share: there is one memory, and so one draw for all. You asked for
                `randomness="different"`.""",
            fix="""Draw a new tensor: `torch.randn_like(x)` in place of
                `torch.empty(n).normal_()`. Each sample then has its own.""",
            broken="""
                import torch

                noisy = lambda x: x + torch.empty(2).normal_()
                torch.vmap(noisy, randomness="different")(torch.zeros(3, 2))
                """,
            fixed="""
                import torch

                noisy = lambda x: x + torch.randn_like(x)
                y = torch.vmap(noisy, randomness="different")(torch.zeros(3, 2))
                assert len(set(y.flatten().tolist())) == 6  # all of them differ
                print(y.shape)
                """,
            see=("error-vmap-randomness", "vmap-limits"),
            source=("aten/src/ATen/functorch (BatchRulesRandomness.cpp)",),
        ),
    ),
)
