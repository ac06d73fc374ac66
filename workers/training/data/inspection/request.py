"""What an inspection is asked: the data of a spec, as it comes over the border of the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from trainyard.spec.sections.data import ImageData, TextData


@dataclass(frozen=True, slots=True)
class InspectionRequest:
    """``recipe`` and the fields of ``task.data``; with an empty ``target`` the facts do not name what is learnt."""

    recipe: str
    source: str
    location: str
    digest: str = ""
    target: str = ""
    text_field: str = TextData.model_fields["text_field"].default
    image_size: int = ImageData.model_fields["image_size"].default

    @classmethod
    def of(cls, recipe: str, data: Mapping[str, object]) -> InspectionRequest:
        """Return the request for ``task.data``, of which other fields are ignored.

        Raises ValueError for a value of another type, and for a source or a location that is missing.
        """
        given: dict[str, object] = {"recipe": recipe}
        for field in fields(cls):
            if field.name in data and field.name != "recipe":
                given[field.name] = data[field.name]
        for name in ("source", "location"):
            if name not in given:
                raise ValueError(f"task.data.{name} is required")
        for name, value in given.items():
            expected = int if name == "image_size" else str
            if type(value) is not expected:
                raise ValueError(f"task.data.{name} must be {expected.__name__}, not {value!r}")
        return cls(**given)  # type: ignore[arg-type]  # each was just looked at
