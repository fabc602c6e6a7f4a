"""Messages about the values a loss takes, its labels, and how it is averaged."""

from pullback._messages._entry import Message, Theme

LOSS_VALUES = Theme(
    "loss-values",
    (
        Message(
            anchor="bce-outside-0-and-1",
            title="all elements of input should be between 0 and 1",
            patterns=(
                r"all elements of (?P<what>input|target) should be between 0 and 1",
                r"Assertion `(?:input_val >= zero && input_val <= one|x >= 0\. && x <= "
                r"1\.)",
                r"input value should be between 0 ?~ ?1, but got",
            ),
            older=(
                "all elements of target should be between 0 and 1",
                "Loss.cu:106: operator(): block: [0,0,0], thread: [32,0,0] Assertion "
                "`input_val >= zero && input_val <= one` failed.",
                "Assertion `x >= 0. && x <= 1.' failed. input value should be between "
                "0~1, but got nan",
            ),
            why="""`binary_cross_entropy` takes the logarithm of a probability and of one
                minus it. Scores lie outside 0 and 1, and nan lies nowhere: both are
                refused.""",
            fix="""Hand the scores, without a sigmoid, to
                `binary_cross_entropy_with_logits`, whose gradient
                `sigmoid(x) - target` exists everywhere.""",
            tell=(
                "`but got nan`, or it comes after many good steps: the weights are nan "
                "since an earlier step; look at their gradients there.",
                "`target`: labels other than 0 and 1 (255 for ignored pixels, images not "
                "divided by 255, class numbers).",
                "A result slightly above 1, of an interpolation or in half precision: "
                "clamp it, or rather interpolate the scores.",
                "An `Assertion` on the GPU: what is printed after it, such as an error of "
                "CUDA in `backward`, only follows from it.",
            ),
            broken="""
                import torch

                x = torch.tensor([2.0, -1.0], requires_grad=True)
                target = torch.tensor([1.0, 0.0])
                torch.nn.functional.binary_cross_entropy(x, target)
                """,
            fixed="""
                import torch

                x = torch.tensor([2.0, -1.0], requires_grad=True)
                target = torch.tensor([1.0, 0.0])
                loss = torch.nn.functional.binary_cross_entropy_with_logits
                loss(x, target, reduction="sum").backward()
                torch.testing.assert_close(x.grad, (torch.sigmoid(x) - target).detach())
                print(x.grad)
                """,
            see=("what-losses-send", "error-sigmoid-before-bce", "find-the-nan"),
            source=("ray-project/ray#17117", "aten/src/ATen/native (Loss.cpp)"),
        ),
        Message(
            anchor="class-out-of-bounds",
            title="Target 3 is out of bounds.",
            kinds=("IndexError",),
            patterns=(
                r"Target (?P<label>-?\d+) is out of bounds",
                r"Assertion `t >= 0 && t < n_classes",
                r"Assertion `cur_target >= 0 && cur_target < n_classes",
            ),
            older=(
                "Loss.cu:271: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], "
                "thread: [5,0,0] Assertion `t >= 0 && t < n_classes` failed.",
                "Assertion `cur_target >= 0 && cur_target < n_classes' failed.",
            ),
            why="""A label is the index of one of the C scores of a sample: from 0 to
                C - 1. This one picks a score that is not there.""",
            fix="""The label is {label}. Give the last layer one output for each class, or
                number the labels from 0. What shall not count gets
                `ignore_index`, -100 unless you say otherwise.""",
            unknown={"label": "outside 0 to C - 1"},
            tell=(
                "Labels from 1 to C: subtract 1.",
                "255 or -1 in a mask: pass `ignore_index=255`.",
                "One output and labels 0 and 1: that is a binary cross-entropy.",
                "The classes are not the last dimension: `cross_entropy` looks for them in "
                "dimension 1, `(N, C, ...)`.",
                "An `Assertion` on the GPU: the error that follows, often in `backward`, "
                "comes from it; run that batch on the CPU.",
            ),
            broken="""
                import torch

                scores = torch.zeros(2, 3, requires_grad=True)
                labels = torch.tensor([1, 3])
                torch.nn.functional.cross_entropy(scores, labels)
                """,
            fixed="""
                import torch

                scores = torch.zeros(2, 3, requires_grad=True)
                labels = torch.tensor([1, 3]) - 1  # from 0
                loss = torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
                loss.backward()
                one_hot = torch.nn.functional.one_hot(labels, 3)
                torch.testing.assert_close(scores.grad, 1 / 3 - one_hot)
                print(scores.grad)
                """,
            see=("what-losses-send", "error-labels-are-long", "token-mean"),
            source=("aten/src/ATen/native (LossNLL.cpp)",),
        ),
        Message(
            anchor="multi-target",
            title="0D or 1D target tensor expected, multi-target not supported",
            patterns=(r"multi-target not supported",),
            older=(
                "1D target tensor expected, multi-target not supported",
                "multi-target not supported at /pytorch/aten/src/THNN/generic/"
                "ClassNLLCriterion.c:22",
            ),
            why="""Labels of shape (N, 1) or one-hot labels of integers were given where
                scores of shape (N, C) call for N integers. The loss picks one score a row:
                only that one, and the row's normalisation, get a gradient.""",
            fix="""`labels.squeeze(1)` for shape (N, 1); `labels.argmax(1)` for one-hot
                rows, or hand these over as real numbers, `labels.float()`: then they are
                probabilities of the classes.""",
            broken="""
                import torch

                scores = torch.zeros(2, 3, requires_grad=True)
                labels = torch.tensor([[0], [2]])
                torch.nn.functional.cross_entropy(scores, labels)
                """,
            fixed="""
                import torch
                from torch.nn.functional import cross_entropy, one_hot

                scores = torch.zeros(2, 3, requires_grad=True)
                labels = torch.tensor([[0], [2]]).squeeze(1)
                (by_index,) = torch.autograd.grad(cross_entropy(scores, labels), scores)
                rows = one_hot(labels, 3).float()
                (by_row,) = torch.autograd.grad(cross_entropy(scores, rows), scores)
                torch.testing.assert_close(by_index, by_row)
                print(by_index)
                """,
            see=("what-losses-send", "error-labels-are-long"),
            source=("aten/src/ATen/native (LossNLL.cpp)",),
        ),
        Message(
            anchor="kl-div-mean",
            title="reduction: 'mean' divides the total loss by both the batch size and the "
            "support size.",
            kinds=("UserWarning",),
            patterns=(
                r"reduction: 'mean' divides the total loss by both the batch size and the "
                r"support size",
            ),
            why="""`kl_div` with `reduction="mean"` divides by the number of all entries,
                N times C. The divergence of a sample is a sum over its C entries: loss and
                gradient are C times too small.""",
            fix="""Pass `reduction="batchmean"`. Where a learning rate was tuned with
                "mean", it was tuned for the small gradient.""",
            broken="""
                import torch

                x = torch.zeros(2, 4, requires_grad=True)
                p = torch.full((2, 4), 0.25)
                torch.nn.functional.kl_div(x.log_softmax(1), p, reduction="mean")
                """,
            fixed="""
                import torch

                x = torch.tensor([[1.0, 0.0], [0.0, 2.0]], requires_grad=True)
                p = torch.full((2, 2), 0.5)
                q = x.log_softmax(1)
                torch.nn.functional.kl_div(q, p, reduction="batchmean").backward()
                torch.testing.assert_close(x.grad, (q.exp() - p).detach() / 2)  # N = 2
                print(x.grad)
                """,
            see=("what-losses-send", "distillation", "token-mean"),
            source=("torch/nn (functional.py)",),
        ),
        Message(
            anchor="size-average",
            title="size_average and reduce args will be deprecated, please use "
            "reduction='sum' instead.",
            kinds=("UserWarning",),
            patterns=(r"size_average and reduce args will be deprecated",),
            older=(
                "size_average and reduce args will be deprecated, please use "
                "reduction='mean' instead.",
            ),
            why="""Two old switches of the losses have become one, `reduction`. It decides
                the factor that every gradient carries: 1 for the sum, one over the number
                of entries for the mean.""",
            fix="""`size_average=False` is `reduction="sum"`, `size_average=True` is
                `reduction="mean"`, `reduce=False` is `reduction="none"`. The numbers stay
                what they were.""",
            broken="""
                import torch

                torch.nn.MSELoss(size_average=False)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 3.0], requires_grad=True)
                target = torch.zeros(2)
                (total,) = torch.autograd.grad(
                    torch.nn.MSELoss(reduction="sum")(x, target), x
                )
                (mean,) = torch.autograd.grad(torch.nn.MSELoss()(x, target), x)
                assert torch.equal(total, 2 * mean)  # two entries
                print(total, mean)
                """,
            see=("what-losses-send", "error-mean-of-unequal-batches"),
            source=("torch/nn (_reduction.py)",),
        ),
        Message(
            anchor="mean-of-integers",
            title="mean(): could not infer output dtype. Input dtype must be either a "
            "floating point or complex dtype. Got: Long",
            patterns=(
                r"mean\(\): could not infer output dtype",
                r"mean\(\): input dtype should be either floating point or complex",
                r"[Cc]an only calculate the mean of floating(?: point)? types",
            ),
            older=(
                "mean(): input dtype should be either floating point or complex dtypes. "
                "Got Long instead.",
                "Can only calculate the mean of floating types. Got Byte instead.",
            ),
            why="""A mean of integers would be rounded. Where a loss was to be averaged, the
                integers say more: they come from an `argmax`, a comparison or labels, and
                no gradient passes through those.""",
            fix="""For a figure to print: `.float().mean()`. For a loss: compute it from
                the scores, before they were turned into classes.""",
            broken="""
                import torch

                scores = torch.tensor([[1.0, 2.0], [3.0, 0.0]], requires_grad=True)
                wrong = (scores.argmax(1) - torch.tensor([1, 1])).abs()
                wrong.mean().backward()
                """,
            fixed="""
                import torch

                scores = torch.tensor([[1.0, 2.0], [3.0, 0.0]], requires_grad=True)
                labels = torch.tensor([1, 1])
                torch.nn.functional.cross_entropy(scores, labels).backward()
                accuracy = (scores.argmax(1) == labels).float().mean()
                assert accuracy == 0.5 and scores.grad.abs().sum() > 0
                print(accuracy, scores.grad)
                """,
            see=("discrete-choices", "cut-graphs"),
            source=("aten/src/ATen/native (ReduceOps.cpp)",),
        ),
        Message(
            anchor="cat-of-numbers",
            title="zero-dimensional tensor (at position 0) cannot be concatenated",
            patterns=(
                r"zero-dimensional tensor \(at position \d+\) cannot be concatenated",
            ),
            why="""Losses, norms and other sums are tensors without a dimension, and
                `torch.cat` joins tensors along one that they have.""",
            fix="""`torch.stack` makes a vector of them and keeps the graph; so does adding
                them up. `torch.tensor([...])` would cut it.""",
            broken="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                torch.cat([w.sum(), (w**2).sum()])
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                losses = torch.stack([w.sum(), (w**2).sum()])
                losses.backward(torch.tensor([1.0, 0.5]))  # weights of the losses
                assert torch.equal(w.grad, torch.tensor([2.0, 3.0]))
                print(losses, w.grad)
                """,
            see=("several-losses", "loss-as-v", "cut-graphs"),
            source=("aten/src/ATen/native (TensorShape.cpp)",),
        ),
        Message(
            anchor="index-of-a-0-d-tensor",
            title="invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
            "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number",
            kinds=("IndexError",),
            patterns=(r"invalid index of a 0-dim tensor",),
            older=(
                "invalid index of a 0-dim tensor. Use tensor.item() to convert a 0-dim "
                "tensor to a Python number",
            ),
            why="""A loss is one number since PyTorch 0.4, a tensor without dimensions.
                `loss.data[0]` is how its value was read before.""",
            fix="""`loss.item()` for a number to print or to add up. Where the gradient is
                still needed keep `loss` itself, without an index.""",
            tell=(
                "`for ... in loss`, `x[0]` where x became a number: a `squeeze()` took a "
                "dimension away; name the dimension, `squeeze(1)`.",
                "The last batch has one sample: the same.",
            ),
            broken="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                loss = (w**2).sum()
                print(loss.data[0])
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                loss = (w**2).sum()
                loss.backward()
                assert loss.item() == 5.0
                print(loss.item(), w.grad)
                """,
            see=("no-grad-detach", "what-keeps-a-graph"),
            source=("PT#35538", "PT#15585"),
        ),
    ),
)
