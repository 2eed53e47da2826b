"""What the policy can write: sequences of tokens, some of which read the visible prompt."""

from __future__ import annotations

import random
from dataclasses import dataclass

from sapo_vl.types import Prompt
from sapo_vl.verifiers.language import question_of

Genome = tuple[str, ...]

# Filled in from the prompt; all else is written as it stands.
ECHOES = ("<<question>>", "<<options>>", "<<labels>>", "<<label 0>>", "<<text 0>>", "<<text last>>")
JOINS = (
    *(
        ", ",
        " or ",
        " and ",
        "; ",
        "\n",
        " ",
        "/",
        "|",
        " & ",
        " - ",
        "-",
        " to ",
        " = ",
        "=",
        ": ",
    ),
    *("\\cup ", "\\lor ", "\\text{ or }", "\\text{ and }", "\\\\", "&", " but not ", " not "),
    *(". ", "? ", "! ", " ; ", ",", "\u3001", "\uff0c", "\u200b", "} or \\boxed{", "}, \\boxed{"),
    *(
        " \\pm ",
        "\\to ",
        "\\in ",
        " < ",
        " \\le ",
        "+",
        "^",
        "_",
        "\t",
        "\x00",
        "</answer><answer>",
    ),
)
FRAMES = (
    *("%s", "(%s)", "[%s]", "\\{%s\\}", "{%s}", "$%s$", "**%s**", "\\text{%s}", "\\mathrm{%s}"),
    *(
        "[%s)",
        "(%s]",
        "|%s|",
        "\\left(%s\\right)",
        "\\boxed{%s}",
        "not %s",
        "about %s",
        "\\frac{%s}{1}",
    ),
    *(
        "The answer is %s.",
        "Answer: %s",
        "\\sqrt{%s}",
        "\\pm %s",
        "-%s",
        "%s\\%%",
        "%s%%",
        "%s.",
        "~%s",
    ),
    *('"%s"', "'%s'", "```json\n%s\n```", "<answer>%s</answer>", "<think>%s</think>", "</think>%s"),
    *(
        "x=%s",
        "x \\in %s",
        "any of %s",
        "one of %s",
        "\\begin{pmatrix}%s\\end{pmatrix}",
        "%s \\text{ cm}",
    ),
    *(
        "\\overline{%s}",
        "\\mathbb{%s}",
        "%s...",
        "\\ldots %s",
        "between %s",
        "%s!",
        "all except %s",
    ),
)
SCRAPS = (
    *(
        "",
        "0",
        "1",
        "-1",
        "10",
        "100",
        "1e9",
        "1e-9",
        "\\infty",
        "nan",
        "inf",
        "None",
        "null",
        "true",
    ),
    *(
        "x",
        "\\mathbb{R}",
        "\\emptyset",
        "*",
        ".*",
        "?",
        "%",
        "\\",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "<",
    ),
    *(
        "A",
        "B",
        "ABCD",
        "A-D",
        "all",
        "any",
        "yes",
        "no",
        "yes and no",
        "[]",
        "{}",
        "1,2,3,4,5,6,7,8,9",
    ),
    *("\uff11", "\u0661", "\u00b2", "\u00bd", "\u4e00", "\U0001d7cf", "\u0430", "\uff21", "\u2460"),
    *(
        "\\ldots",
        "\\forall",
        "\\int_0^1",
        "\\sum_{k=1}^n k",
        "9^{9^{9}}",
        "9**9**9",
        "100!",
        "(" * 30,
    ),
    *("[0,0,1000,1000]", "[-1e9,-1e9,1e9,1e9]", "[0,0,1,1]", "<|im_end|>", "reference", "correct"),
    *("1/0", "0/0", "x=x", "0=0", "1=1", "\\top", "\\text{correct}", "__import__('os')", "a" * 300),
)


@dataclass(frozen=True)
class Grammar:
    """Draws and changes responses.

    Args:
        words: of the target, see `targets.Target`.
        wrap: how its form asks for an answer.
    """

    words: tuple[str, ...]
    wrap: str

    def draw(self, chance: random.Random) -> Genome:
        """Return a new response: one or several answers, joined, framed, and perhaps wrapped."""
        count = chance.choice((1, 1, 1, 2, 2, 3, 4, 8, len(self.words)))
        join = chance.choice(JOINS)
        tokens: list[str] = []
        for i in range(count):
            tokens += [join] * (i > 0) + [self._token(chance, i if count > 8 else None)]
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            tokens = self._framed(chance, tokens)
        wrapped = [self.wrap.partition("%s")[0], *tokens, self.wrap.partition("%s")[2]]
        tokens = wrapped if chance.random() < 0.9 else tokens
        if chance.random() < 0.1:  # a second answer, or the same again
            tokens = [
                *tokens,
                chance.choice(JOINS),
                *(tokens if chance.random() < 0.3 else wrapped),
            ]
        if chance.random() < 0.1:
            tokens = [chance.choice((*SCRAPS, *ECHOES)), *tokens]
        return tuple(tokens)

    def change(self, chance: random.Random, genome: Genome, other: Genome) -> Genome:
        """Return a response near ``genome``, with a piece of ``other`` at times."""
        tokens = list(genome)
        for _ in range(chance.choice((1, 1, 2, 3))):
            place = chance.randrange(len(tokens) + 1)
            what = chance.random()
            if what < 0.4 and place < len(tokens):
                tokens[place] = self._token(chance, None)
            elif what < 0.6:
                tokens.insert(place, self._token(chance, None))
            elif what < 0.75 and place < len(tokens):
                del tokens[place]
            elif what < 0.9:
                start = chance.randrange(len(other) + 1)
                tokens[place:place] = other[start : start + chance.randrange(1, 6)]
            else:
                frame = chance.choice(FRAMES).partition("%s")
                end = chance.randrange(place, len(tokens) + 1)
                tokens[place:end] = [frame[0], *tokens[place:end], frame[2].replace("%%", "%")]
        return tuple(tokens[:80])

    def _token(self, chance: random.Random, number: int | None) -> str:
        if number is not None:
            return self.words[number % len(self.words)]
        kind = chance.random()
        if kind < 0.65:
            return chance.choice(self.words)
        return chance.choice(SCRAPS if kind < 0.8 else JOINS if kind < 0.95 else ECHOES)

    def _framed(self, chance: random.Random, tokens: list[str]) -> list[str]:
        before, _, after = chance.choice(FRAMES).partition("%s")
        return [before, *tokens, after.replace("%%", "%")]


def written(genome: Genome, prompt: Prompt) -> str:
    """Return the response to a prompt: its echoes are filled in from what can be seen of it."""
    return "".join(_echo(token, prompt) if token.startswith("<<") else token for token in genome)


def _echo(token: str, prompt: Prompt) -> str:
    labels, texts = list(prompt.options) or [""], list(prompt.options.values()) or [""]
    seen = {
        "<<question>>": question_of(prompt),
        "<<options>>": " ".join(f"({k}) {v}" for k, v in prompt.options.items()),
        "<<labels>>": ", ".join(labels),
        "<<label 0>>": labels[0],
        "<<text 0>>": texts[0],
        "<<text last>>": texts[-1],
    }
    return seen.get(token, token)
