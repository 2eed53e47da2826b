"""Penalty for an answer in another language than the question, told by the script it is written in.

Scripts need no dictionary and no model: Chinese for an English question is seen, French is not.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import after_thinking

# Ranges of letters; in the first group a letter is a syllable or a word, in the second words are
# counted. Kana sets Japanese apart from Chinese, see `script_of`.
_BY_LETTER = {
    "han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ebef",
    "kana": "\u3040-\u30ff\u31f0-\u31ff",
    "hangul": "\uac00-\ud7af\u1100-\u11ff",
    "thai": "\u0e00-\u0e7f",
}
_BY_WORD = {
    "latin": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "greek": "\u0370-\u03ff",
    "cyrillic": "\u0400-\u052f",
    "hebrew": "\u0590-\u05ff",
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "devanagari": "\u0900-\u097f",
    "bengali": "\u0980-\u09ff",
}
_PIECES = re.compile(
    "|".join(
        [f"(?P<{name}>[{chars}])" for name, chars in _BY_LETTER.items()]
        # Single letters are variables and labels in any language.
        + [f"(?P<{name}>[{chars}]{{2,}})" for name, chars in _BY_WORD.items()]
    )
)
_NO_PROSE = re.compile(
    r"```.*?(?:```|\Z)|\$[^$]*\$|\\\[.{0,1000}?\\\]|\\\(.{0,1000}?\\\)|\\[A-Za-z]+|<[^<>]*>",
    re.DOTALL,
)
_LETTERS_A_WORD = 2  # Chinese, roughly
_MAX_CHARS = 20_000  # of a response; its start tells the language


@dataclass(frozen=True)
class LanguagePenalty:
    """Score 1, less a penalty where the answer is in another script than the question.

    Qwen3-VL's reward has such a penalty in place of a format reward (its report names no rule;
    this one is ours). Formulas, code, tags and single letters do not count, nor do answers of
    fewer than ``min_words``. For questions in several scripts the most frequent decides. Languages
    of one script are not told apart.

    Args:
        penalty: taken off the score, in [0, 1].
        max_share: largest share of the answer's words in other scripts that goes unpunished.
        min_words: an answer with fewer is too short to say.
        thinking: only what follows ``</think>`` is looked at; False: the reasoning as well.

    The question is the text of ``prompt.messages`` from the user, or ``prompt.meta["question"]``.

    Raises:
        ValueError: a number out of range.
    """

    penalty: float = 1.0
    max_share: float = 0.3
    min_words: int = 5
    thinking: bool = True

    def __post_init__(self) -> None:
        for name, value in (("penalty", self.penalty), ("max_share", self.max_share)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is {value}; it must lie in [0, 1]")
        if self.min_words < 1:
            raise ValueError(f"min_words is {self.min_words}; it must be at least 1")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response``: 1, or 1 - ``penalty``."""
        answer = after_thinking(response, False) if self.thinking else response
        wanted = script_of(question_of(prompt))
        words = count_words(response if answer is None else answer)
        total = sum(words.values())
        if wanted is None or total < self.min_words:
            return Verdict(score=1.0, reason="too little text to tell a language")
        family = ("han", "kana") if wanted == "kana" else (wanted,)
        other = 1 - sum(words[script] for script in family) / total
        # Chinese is written in signs that Japanese has too, but without any kana.
        lost_kana = wanted == "kana" and not words["kana"]
        score = 1 - self.penalty if other > self.max_share or lost_kana else 1.0
        return Verdict(score=score, reason=f"{other:.0%} is not in the question's script {wanted}")

    def check_reference(self, prompt: Prompt) -> str | None:
        """Return None: the reference plays no part."""
        return None


def count_words(text: str) -> Counter[str]:
    """Return the number of words in each script, formulas, code and tags left out."""
    counts: Counter[str] = Counter()
    for match in _PIECES.finditer(_NO_PROSE.sub(" ", text[:_MAX_CHARS])):
        counts[str(match.lastgroup)] += 1
    return Counter(
        {s: -(-n // _LETTERS_A_WORD) if s in _BY_LETTER else n for s, n in counts.items()}
    )


def script_of(text: str) -> str | None:
    """Return the script of most words; "kana" for Japanese, None where there are no words."""
    words = count_words(text)
    # Japanese mixes both; a tenth of kana is far less than any Japanese sentence has.
    if words["kana"] * 10 >= words["kana"] + words["han"] > 0:
        words["kana"] += words.pop("han", 0)
    return max(words, key=lambda script: words[script]) if any(words.values()) else None


def question_of(prompt: Prompt) -> str:
    """Return the text of the user's messages, or ``meta["question"]`` where there are none."""
    texts = []
    for message in prompt.messages:
        content = message.get("content") if message.get("role") == "user" else None
        parts = [content] if isinstance(content, str) else content or []
        texts += [part if isinstance(part, str) else part.get("text") or "" for part in parts]
    return "\n".join(texts) or str(prompt.meta.get("question", ""))
