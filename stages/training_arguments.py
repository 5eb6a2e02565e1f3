"""What train.arguments may hold: each field of transformers.TrainingArguments is ours, allowed, or without effect."""

from typing import Any


def mistakes(arguments: dict[str, Any]) -> list[str]:
    """What is wrong with train.arguments, one message for each mistake."""
    return []


def explain(name: str) -> str | None:
    """Of a name that is no knob of ours: what became of it, or None where it is unknown to transformers too."""
    return None
