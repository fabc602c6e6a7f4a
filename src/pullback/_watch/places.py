"""Where parameters stood: which module had them, and whose part that was."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import Module, ModuleDict

DEEPEST = 32  # modules inside of one another


@dataclass
class Room:
    """What is known of a module, and stays known when the module is gone.

    Attributes:
        module: The module, weakly.
        inside: The rooms of the modules that it was made a part of, and its name there.
        since: When each name of it, of a parameter or a part, was given away last.
    """

    module: weakref.ref[Module]
    inside: list[tuple[Room, str]] = field(default_factory=list)
    since: dict[str, int] = field(default_factory=dict)


class Place(NamedTuple):
    """Where a parameter stood.

    Attributes:
        parameter: The parameter, weakly.
        room: The room of the module that had it.
        name: Its name there.
    """

    parameter: weakref.ref[Tensor]
    room: Room
    name: str


class Places:
    """Where the parameters were put that a program has made while it was watched.

    Attributes:
        count: How many names of modules were given away so far: the time.
    """

    def __init__(self) -> None:
        self.count = 0
        self._rooms: dict[int, Room] = {}
        self._places: dict[int, list[Place]] = {}

    def parameter_registered(self, module: Module, name: str, parameter: Any) -> None:
        """Keep that a module has been given a parameter: a hook on all modules."""
        if isinstance(parameter, Tensor):
            place = Place(weakref.ref(parameter), self._room(module), name)
            before = self._of(parameter)
            self._places[id(parameter)] = [*before, place]
            self._given(place.room, name)

    def module_registered(self, module: Module, name: str, part: Any) -> None:
        """Keep that a module has been given a part: a hook on all modules."""
        if isinstance(part, Module):
            inside = self._room(module)
            self._room(part).inside.append((inside, name))
            self._given(inside, name)

    def forget(self) -> None:
        """Drop the parameters that are gone, and the modules that none of them stood in."""
        for key, places in [*self._places.items()]:
            if places[0].parameter() is None:
                del self._places[key]
        for key, room in [*self._rooms.items()]:
            if room.module() is None:
                del self._rooms[key]

    def since(self, root: Module, name: str) -> int:
        """Return when a parameter became part of a module; 0 of what was not seen."""
        last, module = 0, root
        for piece in name.split("."):
            last = max(last, self._room(module).since.get(piece, 0))
            module = getattr(module, piece)
        return last

    def name_of(self, parameter: Tensor) -> str:
        """Return the name under which a parameter stood last, or nothing."""
        places = self._of(parameter)
        if not places:
            return ""
        room, name = places[-1].room, places[-1].name
        for _ in range(DEEPEST):
            if not room.inside:
                break
            room, outer = room.inside[-1]
            name = f"{outer}.{name}"
        return name

    def _given(self, room: Room, name: str) -> None:
        self.count += 1
        room.since[name] = self.count

    def _room(self, module: Module) -> Room:
        room = self._rooms.get(id(module))
        if room is None or room.module() is not module:
            room = self._rooms[id(module)] = Room(weakref.ref(module))
        return room

    def _of(self, parameter: Tensor) -> list[Place]:
        places = self._places.get(id(parameter), [])
        return places if places and places[0].parameter() is parameter else []

    def successors(
        self, old: Tensor, parts: dict[int, Module]
    ) -> Iterator[Sequence[Tensor]]:
        """Yield the parameters that stand now where one stood that has lost its place.

        ``parts`` are the modules that count, by ``id``: those that ran, and their parts.
        """
        for place in self._of(old):
            module = place.room.module()
            if module is not None and id(module) in parts:
                yield _instead(module, place.name)
            else:
                for part in _replaced(place.room, parts):
                    yield [*part.parameters()]


def _instead(module: Module, name: str) -> list[Tensor]:
    """Return what a module has under a name, or what that is computed from."""
    own = dict(module.named_parameters(recurse=False, remove_duplicate=False))
    if name in own:
        return [own[name]]
    computed = dict(module.named_children()).get("parametrizations")
    if isinstance(computed, ModuleDict) and name in computed:
        return [*computed[name].parameters()]
    return [p for n, p in own.items() if n.startswith(f"{name}_")]  # older weight_norm


def _replaced(room: Room, parts: dict[int, Module], depth: int = 0) -> Iterator[Module]:
    """Yield what stands now where a module stood, or the module that it was part of."""
    for inside, name in room.inside if depth < DEEPEST else ():
        outer = inside.module()
        if outer is None or id(outer) not in parts:
            yield from _replaced(inside, parts, depth + 1)
            continue
        now = dict(outer.named_children()).get(name)
        if now is not None and now is not room.module():
            yield now
