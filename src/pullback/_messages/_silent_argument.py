"""Traps that raise nothing: v is dropped, cast, summed over or not asked for."""

from pullback._messages._entry import Theme, trap

SILENT_ARGUMENT = Theme(
    "silent-argument",
    (
        trap(
            anchor="extra-gradients-dropped",
            title="More grad_tensors than tensors: the rest is dropped",
            why="""`torch.autograd.backward` and `grad` pair outputs and gradients with
                `zip` before they count them, and `zip` stops at the shorter list. So does
                `y.backward((v1, v2))`: the second is dropped.""",
            fix="""Compare the lengths yourself: `zip(outputs, gradients, strict=True)`
                raises.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                v = [torch.ones(2), torch.full((2,), 100.0)]
                torch.autograd.backward([x**2], v)
                assert torch.equal(x.grad, 2 * x)  # the 100 is nowhere
                print(x.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                pairs = zip([x**2], [torch.ones(2), torch.ones(2)], strict=True)
                try:
                    outputs, gradients = zip(*pairs)
                except ValueError as error:
                    refused = str(error)
                assert "longer" in refused
                print(refused)
                """,
            see=("several-losses", "shape-rule", "error-tensors-and-gradients"),
            source=("syfafterzy/PCB_RPP_for_reID#16",),
        ),
        trap(
            anchor="gradient-cast",
            title="An int or float64 gradient is cast to the output's dtype",
            why="""`gradient` may have another real dtype than the output; autograd converts
                it. Digits that the output's dtype cannot hold are lost without a word.""",
            fix="""Compute in the precision that you need from the start: the output's dtype
                decides.""",
            broken="""
                import torch

                x = torch.tensor(1.0, requires_grad=True)  # float32
                v = torch.tensor(16777217)  # 2²⁴ + 1, an integer
                (x * 1).backward(v)
                assert int(x.grad) == 16777216
                print(int(x.grad))
                """,
            fixed="""
                import torch

                x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
                v = torch.tensor(16777217)
                (x * 1).backward(v)
                assert int(x.grad) == 16777217
                print(int(x.grad))
                """,
            see=("contract",),
            source=("torch/csrc/autograd (engine.cpp, validate_outputs)",),
        ),
        trap(
            anchor="one-element-needs-no-gradient",
            title="A result of shape (1,) or (1, 1) needs no gradient argument",
            why="""What counts is the number of elements, not the number of dimensions. A
                batch of one therefore passes, and the same code fails with a batch of
                two.""",
            fix="""Reduce explicitly (`.mean()`, `.sum()`) in code that is to work for every
                batch size.""",
            broken="""
                import torch

                x = torch.ones(1, 3, requires_grad=True)  # a batch of one
                y = (x**2).sum(1)
                y.backward()
                assert y.shape == (1,) and x.grad is not None
                print(x.grad)
                """,
            fixed="""
                import torch

                for batch in (1, 2):
                    x = torch.ones(batch, 3, requires_grad=True)
                    y = (x**2).sum(1)
                    y.mean().backward()
                    torch.testing.assert_close(x.grad, 2 * x.detach() / batch)
                print(x.grad)
                """,
            see=("bare-backward",),
            source=("torch/autograd/__init__.py (_make_grads)",),
        ),
        trap(
            anchor="outputs-are-summed",
            title="Several outputs in one grad call: their gradients are summed, not "
            "stacked",
            why="""`torch.autograd.grad([y1, y2], x)` returns one tensor for each *input*.
                What each output sends back is added up, as if you had differentiated
                `y1 + y2`.""",
            fix="""Call once for each output (`retain_graph=True`), or pass one-hot `v`s
                with `is_grads_batched=True`, or use `pullback.jacobian`.""",
            broken="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                (g,) = torch.autograd.grad([x**2, 10 * x], [x])
                assert g == 2 * 3 + 10
                print(g)
                """,
            fixed="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                y = torch.stack([x**2, 10 * x])
                (each,) = torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True)
                assert each.tolist() == [6.0, 10.0]
                print(each)
                """,
            see=("several-outputs", "one-component", "jacobian-row-by-row"),
            source=("PF/83134", "PT#7786", "PT#1605"),
        ),
        trap(
            anchor="ones-on-mixed-samples",
            title="ones_like(y) gives no derivative for each sample when samples mix",
            why="""With softmax over the batch, BatchNorm in training, attention or cumsum
                an output depends on other samples, too. Ones then sum over all of them.""",
            fix="""Ask `pullback.mixing(f, x)` first; when samples mix, take the Jacobian
                and its diagonal.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x.softmax(0)
                (g,) = torch.autograd.grad(y, x, torch.ones(3))
                torch.testing.assert_close(g, torch.zeros(3), atol=1e-7, rtol=0)
                print(g.round(decimals=4).abs())
                """,
            fixed="""
                import torch

                import pullback

                x = torch.tensor([1.0, 2.0, 3.0])
                f = lambda x: x.softmax(0)
                assert pullback.mixing(f, x)
                own = pullback.jacobian(f, x).diagonal()
                torch.testing.assert_close(own, f(x) * (1 - f(x)))
                print(own.round(decimals=4))
                """,
            see=("mixing-samples", "ones-trick"),
            source=("TaoYang225/AD-DROP#2", "mrana6/euclideanizing_flows#2"),
        ),
    ),
)
