"""`OVAny` and `RTMap`: remarks beside layers and models, each a value of any kind by its name."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any

from uncork.openvino._errors import invalid


class OVAny:
    """A value of any kind."""

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, OVAny) else value

    def get(self) -> Any:
        """The value."""
        return self.value

    def set(self, value: Any) -> None:
        """Have another value."""
        self.value = value

    def astype(self, kind: Any) -> Any:
        """The value as another kind: `.astype(str)`; of a text, numbers and truth are read."""
        if isinstance(self.value, str) and kind is bool:
            return {"true": True, "1": True, "yes": True}.get(self.value.strip().lower(), False)
        if isinstance(self.value, dict) and kind is dict:
            return dict(self.value)
        try:
            return kind(self.value)
        except (TypeError, ValueError) as error:
            raise invalid(f"expected a value that is {kind.__name__}: {error}") from None

    def aslist(self, kind: Any = str) -> list[Any]:
        """The parts of a text between spaces, or of a list, as another kind."""
        parts = self.value.split() if isinstance(self.value, str) else list(self.value)
        return [kind(part) for part in parts]

    def __getitem__(self, key: Any) -> Any:
        return self.value[key]

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, OVAny) else other))

    def __hash__(self) -> int:
        return hash(str(self.value))

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"<OVAny: {self.value!r}>"


class RTMap(MutableMapping[str, Any]):
    """Remarks by name."""

    def __init__(self, values: dict[str, Any] | None = None) -> None:
        self._values = {} if values is None else values

    def __getitem__(self, key: str) -> OVAny:
        return OVAny(self._values[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value.value if isinstance(value, OVAny) else value

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> KeysView[str]:
        """The names."""
        return super().keys()

    def values(self) -> ValuesView[Any]:
        """The values."""
        return super().values()

    def items(self) -> ItemsView[str, Any]:
        """Names and values."""
        return super().items()

    def __repr__(self) -> str:
        return f"<RTMap: {self._values!r}>"
