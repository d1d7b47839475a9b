"""How an operation is declared: a method with nothing but its signature and what it is for.

    @get("/pins/{pin_id}", Needed.read, fails=(404,))
    def pin(self, pin_id: int) -> Pin:
        \"\"\"Show a pin\"\"\"

Arguments that are no part of the path are query parameters of GET and DELETE, and members of a JSON body of
others. The first line of the docstring is the summary, the rest the description. An object of the class that
is `Blocking` has a method with this signature; one that is `Asynchronous` has a coroutine.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from shoal.declared.arguments import MAX_LIMIT, MAX_PAGE, Argument, Whole, arguments_of
from shoal.models.keys import Needed
from shoal.support.other_names import COMPARED_CHARS, meant_name

API = "/api/v1"
IDEMPOTENCY_KEY = "idempotency_key"
"""The argument that is sent as the header `Idempotency-Key`."""
SAME_JOB = "chosen by the client; the same key and body return the same job, another body returns 409"
SAME_OUTCOME = (
    "chosen by the client; the same key and body return the same outcome and add nothing, another body "
    "returns 409"
)

Limit = Annotated[int, Argument(kind=Whole(1, MAX_LIMIT), default=50, about="most entries to return")]
Offset = Annotated[int, Argument(kind=Whole(0, MAX_PAGE), about="entries to skip")]

PARAMETER = re.compile(r"{(\w+)}")
"""A parameter of a path."""

P = ParamSpec("P")
T = TypeVar("T")


class Caller(ABC):
    """What requests operations: a client."""

    @abstractmethod
    def _operate(self, operation: Operation[..., Any], arguments: dict[str, Any]) -> Any:
        """Return the value of an operation, as `_run` takes it."""

    @abstractmethod
    def _list(self, listing: Listing[..., Any], arguments: dict[str, Any]) -> Any:
        """Return the items of all pages of an operation, as `_stream` takes them."""

    @abstractmethod
    def _run(self, flow: Any) -> Any: ...

    @abstractmethod
    def _stream(self, stream: Any) -> Any: ...


class Blocking(Caller):
    """Waits for the answer."""


class Asynchronous(Caller):
    """Returns coroutines and asynchronous iterators."""


class Method(ABC):
    """A method of both clients. Supports `help`, `inspect` and calls through the class."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(cast(Any, self), function)
        self.function = function
        signature = inspect.signature(function)
        self._own, *parameters = signature.parameters.values()
        self._bound_signature = signature.replace(parameters=parameters)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature with the types as a reader knows them."""
        shown = self._shown_signature
        return shown.replace(parameters=[self._own, *shown.parameters.values()])

    @functools.cached_property
    def _shown_signature(self) -> inspect.Signature:
        signature = self._bound_signature
        parameters = [
            each.replace(annotation=self._shown_type(name)) for name, each in signature.parameters.items()
        ]
        return signature.replace(parameters=parameters, return_annotation=self._shown_type("return"))

    def _shown_type(self, name: str) -> str:
        """Return the type of a parameter, or of what is returned, as a signature shows it."""
        shown = self.function.__annotations__[name]
        named = self.function.__globals__.get(shown)
        if "Annotated" in shown or typing.get_origin(named) is Annotated:
            shown = _text_of(typing.get_type_hints(self.function)[name])
        return _TypeName(_FLOW.sub(r"\1", _STREAM.sub("Iterator", shown)))

    def __call__(self, client: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__get__(client)(*args, **kwargs)

    @abstractmethod
    def __get__(self, client: Any, owner: object = None) -> Any: ...

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, with the defaults of those that are absent."""
        bound = self._bound_signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        for name, parameter in self._bound_signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments |= arguments.pop(name)
        return arguments

    def _bound(self, call: Callable[..., Any]) -> Any:
        """Give a bound method the name, documentation and signature of this one, and its refusals."""

        def checked(*args: Any, **kwargs: Any) -> Any:
            self._check_names(kwargs)
            return call(*args, **kwargs)

        method: Any = functools.update_wrapper(checked, cast(Any, self))
        method.__signature__ = self._shown_signature
        return method

    def _check_names(self, given: Mapping[str, Any]) -> None:
        """Raises TypeError for the first name that is no argument, with the one that is meant."""
        parameters = self._bound_signature.parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            return
        unknown = next((name for name in given if name not in parameters), None)
        if unknown is not None and (meant := meant_name(unknown, parameters)) is not None:
            function = cast(Any, self).__name__
            raise TypeError(f"{function}: there is no {unknown[:COMPARED_CHARS]!r}; did you mean {meant}?")


_STREAM = re.compile(r"^(?:Stream|Iterable)(?=\[)")
_FLOW = re.compile(r"^Flow\[(.*)\]$")
_MODULE = re.compile(r"\b[a-z_]+\.")


def _text_of(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else _MODULE.sub("", str(kind))


class _TypeName(str):
    """A type in a signature, displayed without quotation marks."""

    __slots__ = ()
    __repr__ = str.__str__


@dataclass(frozen=True, slots=True)
class Sent:
    """Of an argument: the function that returns the form of a value in JSON, if it is not the usual one."""

    form: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How an operation is requested, and how it answers.

    path       with parameters in braces, below `/api/v1` unless it is `of_service`
    answer     record of the answer if it is not what the method returns, which then is its first field
    status     of success; 204 if there is no answer
    about      describes the answer
    fails      statuses of errors besides those of invalid requests
    conflict   describes the error 409, which is one of the operation's own
    fills      whether absent members of the body have their defaults, and may be null
    needs_body whether the body may not be left out
    own_body   whether the body is something else than an object with the arguments, which are in the address
    key        describes the header `Idempotency-Key`; without it, the operation takes none
    may_repeat whether a client may send it again when the answer was lost: it is idempotent, or has a key
    of_service whether it is beside the API
    command    of the command line that does it in a library or asks for it, after `shoal`; empty without one
    tool       that agents get for it; empty if they get none
    for_tokens whether search tokens may do it, because its answer holds only what they may see
    names_collection  whether a request names its collection in its body, or by an id in its path: any key
               reaches the view, which lets it into the collection
    """

    method: str
    path: str
    needed: Needed
    answer: type | None = None
    status: int = 200
    about: str = ""
    fails: tuple[int, ...] = ()
    conflict: str = ""
    fills: bool = True
    needs_body: bool = True
    own_body: bool = False
    key: str = ""
    may_repeat: bool = True
    of_service: bool = False
    command: str = ""
    tool: str = ""
    for_tokens: bool = False
    names_collection: bool = False


class Operation(Method, Generic[P, T]):
    """One operation of the service."""

    def __init__(self, function: Callable[Concatenate[Any, P], T], terms: Terms) -> None:
        super().__init__(function)
        self.terms = terms
        if function.__annotations__["return"] == "bool":
            self.__doc__ = f"{self.__doc__}; false if there is none"

    @property
    def address(self) -> str:
        """The path with its parameters in braces, in the collection `main`."""
        return self.terms.path if self.terms.of_service else API + self.terms.path

    @functools.cached_property
    def types(self) -> Mapping[str, Any]:
        """The types of the arguments with their annotations, and of what it returns, `return`."""
        return typing.get_type_hints(self.function, include_extras=True)

    @property
    def returned(self) -> Any:
        """The type of what the method returns."""
        return self.types["return"]

    @functools.cached_property
    def in_path(self) -> Mapping[str, str]:
        """The parameters of the method that the path has, by their names there."""
        found = {}
        for name in PARAMETER.findall(self.terms.path):
            is_own = name in self.parameters
            found[name] = name if is_own else next(n for n in self.parameters if self.member_of(n) == name)
        return found

    @functools.cached_property
    def arguments(self) -> Mapping[str, Argument]:
        """The declared arguments that are not in the path, by their names in a request."""
        found: dict[str, Argument] = {}
        for name, parameter in self.parameters.items():
            if name in self.in_path.values():
                continue
            hint = self.types[name]
            if typing.get_origin(hint) is typing.Unpack:
                found |= arguments_of(typing.get_args(hint)[0])
            for note in getattr(hint, "__metadata__", ()):
                if isinstance(note, Argument):
                    has_default = note.default is None and parameter.default is not parameter.empty
                    fits = has_default and not note.is_anywhere
                    made = dataclasses.replace(note, default=parameter.default) if fits else note
                    found[made.member or name] = made
        return found

    @functools.cached_property
    def required(self) -> frozenset[str]:
        """The names of the arguments without a default."""
        names = {
            self.member_of(name)
            for name, each in self.parameters.items()
            if each.default is each.empty and name not in self.in_path.values()
        }
        return frozenset(
            name for name in names & self.arguments.keys() if self.arguments[name].default is None
        )

    def member_of(self, name: str) -> str:
        """Return the name of a parameter in a request."""
        notes = getattr(self.types.get(name), "__metadata__", ())
        return next((each.member for each in notes if isinstance(each, Argument) and each.member), name)

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the method."""
        return self._bound_signature.parameters

    @property
    def has_body(self) -> bool:
        """Whether the arguments are members of a JSON body."""
        return self.terms.method not in ("GET", "DELETE") and not self.terms.own_body

    @property
    def record(self) -> Any:
        """The record of the answer; None without one."""
        return self.terms.answer or (None if self.returned in (bool, type(None)) else self.returned)

    def form_of(self, name: str, usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function that returns the form of an argument in JSON."""
        notes = getattr(self.types.get(name), "__metadata__", ())
        return next((note.form for note in notes if isinstance(note, Sent)), usual)

    @overload
    def __get__(self, client: None, owner: object = None) -> Operation[P, T]: ...
    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Asynchronous, owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return self._bound(
            lambda *args, **kwargs: client._run(client._operate(self, self.given(args, kwargs)))
        )


class Listing(Method, Generic[P, T]):
    """All items of an operation that returns them page by page."""

    def __init__(
        self, function: Callable[Concatenate[Any, P], Iterable[T]], page: Operation[..., Any]
    ) -> None:
        super().__init__(function)
        self.page = page

    @overload
    def __get__(self, client: None, owner: object = None) -> Listing[P, T]: ...
    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Asynchronous, owner: object = None) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return self._bound(
            lambda *args, **kwargs: client._stream(client._list(self, self.given(args, kwargs)))
        )


def declare(
    method: str, path: str, needed: Needed, **terms: Any
) -> Callable[[Callable[Concatenate[Any, P], T]], Operation[P, T]]:
    """Declare an operation by its signature. `terms` are those of `Terms`."""
    made = Terms(method=method, path=path, needed=needed, **terms)
    return lambda function: Operation(function, made)


get = functools.partial(declare, "GET")
post = functools.partial(declare, "POST")
put = functools.partial(declare, "PUT")
patch = functools.partial(declare, "PATCH")
delete = functools.partial(declare, "DELETE")


def each(
    page: Operation[..., Any],
) -> Callable[[Callable[Concatenate[Any, P], Iterable[T]]], Listing[P, T]]:
    """Declare a method that returns all items of an operation, read page by page."""
    return lambda function: Listing(function, page)


def operations_of(*declarations: type) -> Iterator[Operation[..., Any]]:
    """Yield the operations that classes and those that they combine declare, in their order."""
    for declaration in declarations:
        for part in declaration.__mro__:
            yield from (each for each in vars(part).values() if isinstance(each, Operation))
