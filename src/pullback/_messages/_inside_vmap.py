"""Messages about what code may do inside ``torch.vmap``."""

from pullback._messages._entry import Message, Theme

INSIDE_VMAP = Theme(
    "inside-vmap",
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
                "`(1) calling .item() … or (2)`: an `if` on a tensor says this, too, where "
                "there is a `grad` between it and the `vmap`: `torch.where(x > 0, a, b)`.",
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
            see=("vmap-limits", "batched-v", "error-vmap-data-dependent"),
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
                "`same randomness with a batched tensor`: `bernoulli(p)` or "
                "`normal(mean)` draws from a p of each sample; `torch.rand(n) < p` and "
                "`mean + torch.randn(n)` draw the same numbers for all.",
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
                "`aten::lstm`, `gru`, `rnn_tanh`: its own batch dimension, or a loop. With "
                "`grad`, `jacrev` or `hessian` inside of the `vmap` the layer runs, given "
                "a first state made of the sample: `gru(x, x.new_zeros(1, hidden_size))`.",
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
                "That message from `nn.GRU`, `nn.RNN` or `nn.LSTM`, in `vmap(grad(f))`: "
                "they make their first state for themselves. Pass one, `gru(x, "
                "x.new_zeros(1, hidden_size))`.",
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
            tell=(
                "You wrote no `normal_`: `rsample` of `Normal`, `Laplace`, `Exponential` "
                "and others in `torch.distributions` calls it. Write the sample out, "
                "`mean + std * torch.randn_like(mean)`.",
            ),
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
