"""Formulas of docstrings as MathML, which browsers draw by themselves, without a network."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, fromstring, register_namespace, tostring

from latex2mathml.converter import convert

_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
_FUNCTIONS = {
    "arg", "argmin", "cos", "coth", "det", "diag", "exp", "log", "max", "min", "sin", "sinh",
    "tanh", "tr",
}  # fmt: skip
_LIMITS = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
_FENCES = set("()[]{}⟨⟩|*")
_CLOSING = set(")]}⟩|!")
_ARITY = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "mover": 2, "munder": 2, "munderover": 3}
_THIN = "0.167em"
register_namespace("", _NAMESPACE)


class FormulaError(ValueError):
    """A formula that cannot be drawn as it was meant."""


def mathml(latex: str, block: bool = False) -> str:
    """LaTeX as a ``<math>`` element, spaced as TeX would; an error where that is not possible."""
    latex = " ".join(latex.split()).replace("{aligned}", "{align*}")
    try:
        root = fromstring(convert(latex, display="block" if block else "inline"))
    except Exception as error:  # whatever the converter trips over
        raise FormulaError(f"cannot convert {latex!r}: {error!r}") from error
    if left := re.findall(r"\\[A-Za-z]+|\\.", "".join(root.itertext())):
        raise FormulaError(f"cannot convert {', '.join(left)} in {latex!r}")
    for element in root.iter():
        element.tag = element.tag.partition("}")[2]
        if len(element) != _ARITY.get(element.tag, len(element)):
            raise FormulaError(f"an argument is missing in {latex!r}")
    for element in root.iter():
        _dress(element, block)
    _space(root)
    root.set("xmlns", _NAMESPACE)
    return tostring(root, encoding="unicode").strip()


def _dress(element: Element, block: bool) -> None:
    """Greek capitals upright, fences without spaces, accents close, limits below."""
    text = (element.text or "").strip()
    if element.tag == "mi" and text == "~":
        element.tag, element.text = "mo", "∼"
    elif element.tag == "mi" and len(text) == 1 and "Α" <= text <= "Ω":
        element.set("mathvariant", "normal")
    elif element.tag == "mo" and text in _FENCES:
        element.attrib |= {"lspace": "0", "rspace": "0"}
        if "minsize" in element.attrib:
            element.attrib |= {"stretchy": "true", "symmetric": "true"}
    elif element.tag == "mo" and text in ".,":
        element.set("lspace", "0")
    elif element.tag == "mover" and element[1].tag == "mo":
        element.set("accent", "true")
    elif element.tag in _LIMITS and block and (element[0].text or "") in ("min", "max"):
        element.tag = _LIMITS[element.tag]


def _space(row: Element) -> None:
    """Thin spaces around names of functions."""
    children: list[Element] = []
    for child in row:
        _space(child)
        before = children[-1] if children else None
        if before is not None and row.tag in ("math", "mrow", "mtd", "mstyle"):
            after_name = _is_name(before) and not _starts_with(child, "([{|⟨,")
            before_name = _is_name(child) and _is_ordinary(before)
            if (after_name and child.tag != "mspace") or before_name:
                children.append(Element("mspace", {"width": _THIN}))
        if _is_sign(child) and (before is None or not _is_ordinary(before)):
            child.attrib |= {"form": "prefix", "lspace": "0", "rspace": "0"}
        children.append(child)
    row[:] = children


def _is_name(element: Element) -> bool:
    while element.tag in {*_LIMITS, *_LIMITS.values()}:
        element = element[0]
    return (element.text or "").strip() in _FUNCTIONS


def _is_ordinary(element: Element) -> bool:
    """Not an operator, a space or an opening bracket."""
    return element.tag not in ("mo", "mspace", "mtext") or (element.text or "") in _CLOSING


def _is_sign(element: Element) -> bool:
    return element.tag == "mo" and (element.text or "") in ("−", "+")


def _starts_with(element: Element, characters: str) -> bool:
    text = "".join(element.itertext()).strip()
    return bool(text) and text[0] in characters
