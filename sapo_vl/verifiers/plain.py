r"""Turns an answer into plain text before it is compared: LaTeX and markdown off, signs unified.

For answers that are words, labels or single numbers; formulas have `sapo_vl.verifiers.math_normal`.
"""

from __future__ import annotations

import re
import unicodedata

from sapo_vl.verifiers.extraction import unwrap_box

MAX_CHARS = 2000  # no word, label or number is longer; keeps garbage answers cheap

# Done before NFKC, which turns a raised 2 into a plain one: "35 cm²" must not become 352.
_RAISED = str.maketrans({sign: f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
_MINUS = str.maketrans(dict.fromkeys("\u2010\u2011\u2013\u2014\u2212", "-"))
_VULGAR = re.compile("[¼-¾⅐-⅞]")

_WRAPPED = re.compile(
    r"\\(?:text(?:bf|it|rm|normal|sf|tt)?|math(?:rm|bf|it|sf)|mbox|emph)"
    r"\s*\{([^{}]*)\}"
)
_DOLLARS = re.compile(r"(?<!\\)\$([^$]*)(?<!\\)\$")
_LATEX_NOISE = re.compile(r"\\(?:left|right|displaystyle|big|Big)(?![A-Za-z])|\\[()\[\]!]")
_LATEX_SPACE = re.compile(r"\\(?:quad|qquad)(?![A-Za-z])|\\[,;: ]|~")
_MARKDOWN = re.compile(r"\*\*|__|`")
_LEAD_INS = re.compile(
    r"(?:so|thus|hence|therefore)?[,\s]*"
    r"(?:(?:the|my)\s+)?(?:(?:correct|right|final|best)\s+)*"
    r"(?:(?:answer|option|choice|it|this|that)\s+is|it's)\s*:?\s*(?:(?:option|choice)\s+)?"
    r"|(?:option|choice)\s+"
    r"|(?:(?:the|my|final|correct|short)\s+)*(?:answer|result|solution|output|antwort|respuesta"
    r"|r[ée]ponse|risposta|resposta|ответ)\s*:\s*"
    r"|(?:正确)?(?:答案|选项|选择|选|应选|故选)\s*(?:是|为|:)?\s*",
    re.IGNORECASE,
)


def plain(text: str) -> str:
    r"""Return ``text`` without its LaTeX and markdown dress, in NFKC, blanks collapsed.

    Example: ``\textbf{(C) } 24`` gives ``(C) 24``, full-width ``１２`` gives ``12``.
    """
    text = unwrap_box(unify_signs(text))
    text = unwrap_text(text)
    text = _DOLLARS.sub(r"\1", text)
    text = text.replace("{,}", ",").replace(r"\%", "%").replace(r"\$", "$")
    text = _LATEX_SPACE.sub(" ", _LATEX_NOISE.sub("", text))
    text = _MARKDOWN.sub("", text)
    return " ".join(text.split()).strip("* ")


def unify_signs(text: str) -> str:
    r"""Return ``text`` in NFKC with plain minus signs, raised digits as ``^2`` and ½ as ``1/2``."""
    text = _VULGAR.sub(lambda sign: f" {unicodedata.normalize('NFKC', sign[0])}", text)
    text = unicodedata.normalize("NFKC", text.translate(_RAISED)).replace("\u2044", "/")
    return text.translate(_MINUS)


def unwrap_text(text: str) -> str:
    r"""Return ``text`` with ``\text{x}``, ``\mathrm{x}`` and their kin replaced by ``x``."""
    for _ in range(3):  # \textbf{\text{x}}: deeper nesting is no answer
        text, changes = _WRAPPED.subn(r"\1", text)
        if not changes:
            break
    return text


def strip_lead_in(text: str) -> str:
    """Return ``text`` without an opening such as "The answer is", "Answer:" or "答案："."""
    match = _LEAD_INS.match(text)
    return text[match.end() :] if match else text


def strip_trailing(text: str) -> str:
    """Return ``text`` without blanks around it and without punctuation after it."""
    return text.strip().rstrip(".,;:!。、 ")
