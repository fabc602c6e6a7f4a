"""The line that edited a tensor in place, and the line that had saved it."""

import pytest
import torch
from functions import OldSquare
from torch import nn
from watched import at, lines_of

import pullback

here = lines_of(__file__)


def test_the_line_that_edited_and_the_line_that_saved():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="inplace") as raised, pullback.watch() as seen:
        y = x.exp()  # saved here
        y += 1  # edited here
        y.sum().backward()
    (finding,) = seen
    assert at(finding.site) == here("edited here")
    assert "add_ edited a tensor of shape [3] in place after Exp" in finding.message
    saved, edited = finding.notes
    assert at(saved.site) == here("saved here")
    assert "its result, of shape [3], at version 0" in saved.text
    assert "version 1" in edited.text
    assert str(finding) in raised.value.__notes__[0]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Linear(3, 1)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, h):
        return self.value(h) * self.scale  # saved the buffer here


def test_a_buffer_is_named_and_its_reader_is_to_copy():
    net = Scaled()
    scale = net.scale
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        y = net(torch.ones(2, 3))
        scale.fill_(5.0)  # wrote the buffer here
        y.sum().backward()
    (finding,) = seen
    assert at(finding.site) == here("wrote the buffer here")
    assert "edited scale, a buffer of shape [1] in place after Mul" in finding.message
    assert finding.fix.startswith("Let the line that saved it read a copy")


def test_a_buffer_that_is_written_slice_by_slice():
    W = torch.eye(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        states = torch.ones(4, 3)
        for t in range(1, 4):
            states[t] = torch.tanh(W @ states[t - 1])  # wrote a slice here
        states.sum().backward()
    (finding,) = seen
    assert at(finding.site) == here("wrote a slice here")
    assert "a slice of shape [3] of a tensor of 12 numbers after Mv" in finding.message
    assert "slices share one version counter" in finding.message
    assert finding.fix.index("torch.stack") < finding.fix.index("clone")


def test_a_buffer_whose_slices_were_written_before_it_was_read_as_a_whole():
    x = torch.ones(2, requires_grad=True)
    for parts in (True, False):
        with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
            buffer = torch.zeros(2, 2) * x
            if parts:
                buffer[0] = x
            squares = buffer.square()
            buffer[1] = x
            squares.sum().backward()
        assert ("version counter" in seen[0].message) is parts
        assert ("torch.stack" in seen[0].fix) is parts


def test_the_optimizer_that_changed_a_parameter_between_two_backwards():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        y = net(torch.ones(5, 3))
        y.mean().backward(retain_graph=True)
        optimizer.step()  # stepped here
        y.square().mean().backward()
    (finding,) = seen
    assert at(finding.site) == here("stepped here")
    assert "SGD.step() changed the parameter 2.weight" in finding.message
    assert "train the same network, make all backward calls first, then all" in finding.fix
    assert "against each other (GAN, actor and critic), compute the second" in finding.fix


def test_what_a_custom_function_saved():
    x = torch.ones(3, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        y = OldSquare.apply(x)
        x[0] = 5.0  # written here
        y.sum().backward()
    (finding,) = seen
    assert at(finding.site) == here("written here")
    assert "after OldSquare had saved" in finding.message


def test_an_edit_before_the_block_is_said_to_be_out_of_sight():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y += 1
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        y.sum().backward()
    assert len(seen) == 0
    assert "out of sight" in str(seen)


@pytest.mark.parametrize("mended", [False, True])
def test_a_memory_that_is_read_as_a_whole_and_written_by_rows(mended):
    net, memory = nn.Linear(3, 5), torch.zeros(4, 5)

    def step(i):
        z = net(torch.ones(2, 3))
        similar = z @ (memory.clone() if mended else memory).T
        memory[i] = z[0].detach() if mended else z[0]  # a row of the memory
        similar.sum().backward()

    if mended:
        with pullback.watch() as seen:
            step(0)
            step(1)
        assert list(seen) == []
        return
    with pytest.raises(RuntimeError, match="inplace"), pullback.watch() as seen:
        step(0)
    assert at(seen[0].site) == here("a row of the memory")
    assert "x.clone()" in seen[0].fix
    assert "z.detach()" in seen[0].fix
