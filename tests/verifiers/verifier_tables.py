"""What every verifier accepts and refuses: docs/verifiers.md is made from these rows."""

from __future__ import annotations

from table_row import Row, rows

FOUR = {"A": "12", "B": "18", "C": "24", "D": "30"}
ZEBRA = '{"House 1": {"Name": "Eric", "Drink": "tea"}, "House 2": {"Name": "Bob", "Drink": "milk"}}'
HALF = '{"House 1": {"Name": "Eric", "Drink": "tea"}, "House 2": {"Name": "Bob", "Drink": "tea"}}'
LISTED = ZEBRA.replace('"Eric"', '["Eric", "Bob"]')
CAT = "[100, 200, 300, 400]"
ENGLISH = {"question": "How many apples are on the table in this picture?"}
JAPANESE = {"question": "この絵にはりんごがいくつありますか。"}

TABLES: dict[str, list[Row]] = {
    "math": [
        *rows(
            r"\frac{3}{8}",
            r"\frac{3}{8} ; \dfrac38 ; 3/8 ; 0.375 ; 37.5\% ; \frac{6}{16}",
            r"0.37 ; \frac{8}{3} ; \frac{3}{8} or \frac{1}{2} ; -\frac{3}{8}",
        ),
        *rows("1200", "1200 ; 1,200 ; 1{,}200 ; 1.2\\times 10^{3} ; 1200 cm", "120 ; 1200, 1300"),
        *rows(r"\{1, 2\}", r"\{1, 2\} ; \{2, 1\}", r"\{1\} ; 1 ; (1, 2, 3)"),
        *rows("[0, 1)", "[0, 1)", "(0, 1) ; [0, 1]"),
        *rows("Sunday", r"Sunday ; \text{Sunday} ; sunday", "yadnuS ; Monday"),
        *rows("2", "2", r"9**9**9 ; 9^{9^{9}} ; 100000000! ; __import__('os').getpid()"),
    ],
    "choice": [
        *rows(
            "C",
            "C ; c ; (C) ; C. ; **C** ; \\text{C} ; C: 24 ; The answer is C. ; 24 ; \uff23",
            "A ; A or C ; A, C ; ABCD ; C: 12 ; 25 ; None of the above ; 12 or 24",
            options=FOUR,
        ),
        *rows("B, D", "B, D ; D, B ; BD ; B and D", "B ; D ; A, B, D", options=FOUR),
        *rows("A", "A", "red ; Red", options={"A": "Red", "B": "red"}),
    ],
    "number": [
        *rows(
            "7",
            "7 ; seven ; 7.0 ; 7 cats ; about 7 ; There are 7. ; 7 (seven) ; 14/2",
            "8 ; -7 ; 1 2 3 4 5 6 7 ; 7 or 8 ; 13-6 ; none ; 77",
        ),
        *rows("1400000000", "1.4 billion ; 1,400,000,000", "1.4"),
        *rows("10", "10 ; 10.4 ; 9.5", "9.4 ; 10.6", arguments={"abs_tol": 0.5}),
    ],
    "yes_no": rows(
        "yes",
        "yes ; Yes. ; TRUE ; **Yes** ; yes, it is ; The answer is yes.",
        "no ; yes or no ; Yes. No. ; yesterday ; maybe ; not true",
    ),
    "text": [
        *rows(
            "red ball",
            "red ball ; Red Ball ; a red ball ; The red ball. ; **red ball** ; \\text{red ball}",
            "red ; red balls ; not a red ball ; red ball, blue ball",
        ),
        *rows("gray", "gray ; grey", "black", meta={"answers": ["grey"]}),
    ],
    "box": [
        *rows(
            CAT,
            '[100, 200, 300, 400] ; {"bbox_2d": [100, 200, 300, 400], "label": "cat"} ; '
            "<answer>[100, 200, 300, 400]</answer> ; (100,200),(300,400) ; "
            "<box>100,200,300,400</box> ; [100.0, 200, 300, 400.0] at [100, 200, 300, 400]",
            '[300, 400, 100, 200] ; [100, 200, 300, 400] [1, 2, 3, 4] ; {"bbox_2d": '
            "[100, 200, 300, 400] ; [nan, 200, 300, 400] ; [100, 200, 300] ; no box ; None",
        ),
        Row("[0, 0, 1000, 1000]", CAT, 0.04, "IoU"),
        Row("[0, 0, 1000, 1000]", CAT, 0, "IoU under 0.5", arguments={"score": "accuracy"}),
        Row("[100, 200, 300, 390]", CAT, 1, "IoU 0.95", arguments={"score": "accuracy"}),
        Row("[-50, 200, 1300, 400]", "[0, 200, 1000, 400]", 1, "clipped to the picture"),
        Row(f"{CAT} [500, 500, 600, 600]", f"[{CAT}, [500, 500, 600, 600]]", 1, "every object"),
        Row(CAT, f"[{CAT}, [500, 500, 600, 600]]", 0.5, "one of two objects"),
        Row(
            "[64, 96, 192, 192]",
            CAT,
            1,
            "pixels of 640 x 480, the reference in thousandths",
            meta={"size": [640, 480]},
            arguments={"coords": "pixels", "reference_coords": "rel1000"},
        ),
        Row("None", "None", 1, "no such object"),
        Row(CAT, "None", 0),
    ],
    "point": [
        *rows(
            CAT,
            '[200, 300] ; (200, 300) ; {"point_2d": [200, 300], "label": "cat"} ; '
            "<point>200 300</point> ; [100, 200]",
            "[99, 300] ; [200, 300] [500, 500] ; [200, 300, 1] ; [200 ; a cat",
        ),
        *rows("[500, 500]", "[500, 500] ; [503, 504]", "[504, 504]", arguments={"radius": 5.0}),
    ],
    "grid": [
        Row(f'{{"solution": {ZEBRA}}}', ZEBRA, 1),
        Row(f'```json\n{{"reasoning": "r", "solution": {ZEBRA}}}\n```', ZEBRA, 1),
        Row(f'so {{ is a brace. {{"solution": {ZEBRA.upper()}}}', ZEBRA.upper(), 1),
        Row(f'{{"solution": {ZEBRA.replace("Eric", " ERIC ")}}}', ZEBRA, 1, "case and blanks"),
        Row(
            f'{{"solution": {{}}}} no: {{"solution": {ZEBRA}}}', ZEBRA, 1, "the last object counts"
        ),
        Row(f'{{"solution": {HALF}}}', ZEBRA, 0),
        Row(f'{{"solution": {HALF}}}', ZEBRA, 0.75, arguments={"score": "cells"}),
        Row(f'{{"solution": {LISTED}}}', ZEBRA, 0, "a list of candidates"),
        Row(f'{{"solution": {ZEBRA}, "solution": {HALF}}}', HALF, 0, "two answers"),
        Row(f'{{"solution": {ZEBRA}', ZEBRA, 0, "cut"),
        Row(ZEBRA, ZEBRA, 0, 'no "solution"'),
        Row(f'{{"solution": {ZEBRA}}} and {{"note": 1}}', ZEBRA, 0, "the last object counts"),
    ],
    "anls": [
        Row("Acme Corp", "ACME corp", 1),
        Row("Acme  Corp ", "Acme Corp", 1),
        Row("abcd", "abcx", 0.75),
        Row("unlikely", "likely", 0.75, "spelling, not meaning"),
        Row("ab", "a", 0, "half of it is edits"),
        Row("The answer is Acme", "Acme", 0),
        Row("1968", "1986", 1, "the best of several references", meta={"answers": ["1968"]}),
    ],
    "chart": [
        *rows("100", "100 ; 102 ; 105 ; 95 ; 102 units", "105.1 ; 94.9 ; -100 ; 100 or 200"),
        *rows("2010", "2010", "2008 ; 2011"),
        *rows("[2007, 2008]", "[2007, 2008]", "[2008, 2007] ; 2007 ; [2007, 2009]"),
        *rows("50%", "50% ; 0.5 ; 51% ; 50 percent", "50 ; 5%"),
        *rows("0", "0 ; 0.0", "0.01"),
        *rows("977633", "977,633 ; 977633 ; 1 million", "977"),
        *rows("Yes", "Yes ; yes ; Yes. ; The answer is yes.", "No ; Yes and no"),
    ],
    "format": [
        Row("<think>a</think>\n\\boxed{1}", "", 1),
        Row("a</think>\\boxed{1}", "", 1, "the template opened the block"),
        Row("<think>try \\boxed{2}</think> \\boxed{1}", "", 1),
        Row("<think></think>\\boxed{1}", "", 0, "no reasoning"),
        Row("<think>a</think><think>b</think>\\boxed{1}", "", 0),
        Row("<think>a \\boxed{1}", "", 0, "never closed"),
        Row("x <think>a</think>\\boxed{1}", "", 0),
        Row("<think>a</think>\\boxed{}", "", 0),
        Row("<think>a</think>\\boxed{1} or \\boxed{2}", "", 0),
        Row("<think>a</think> 1", "", 0),
        Row("so \\boxed{1}", "", 1, arguments={"thinking": False}),
        Row("<think>a</think>\\boxed{1}", "", 0, arguments={"thinking": False}),
    ],
    "language": [
        Row("There are three apples on the table.", "", 1, meta=ENGLISH),
        Row("桌子上一共有三个苹果和两个梨。", "", 0, meta=ENGLISH),
        Row(
            "桌子上一共有三个苹果和两个梨。",
            "",
            0.5,
            meta=ENGLISH,
            arguments={"penalty": 0.5},
        ),
        Row(
            "The sign 苹果 says that there are three apples here.",
            "",
            1,
            "a quotation",
            meta=ENGLISH,
        ),
        Row("\\boxed{3}", "", 1, "too short to tell", meta=ENGLISH),
        Row("テーブルの上にりんごが三つあります。", "", 1, meta=JAPANESE),
        Row("桌子上一共有三个苹果和两个梨。", "", 0, "Chinese for Japanese", meta=JAPANESE),
        Row("Il y a trois pommes sur la table.", "", 1, "the same script", meta=ENGLISH),
    ],
    "repetition": [
        Row("The sum of the two angles is 90 degrees, so x is 30.", "", 1, arguments={"ngram": 3}),
        Row("wait " * 100, "", 1 - (97 / 98 - 0.1) / 0.9, arguments={"ngram": 3}),
        Row("wait " * 100, "", 1 - (97 / 98 - 0.1) / 1.8, arguments={"ngram": 3, "penalty": 0.5}),
        Row("a b", "", 1, "shorter than an n-gram", arguments={"ngram": 3}),
    ],
    "overlong": [
        Row("x" * 80, "", 1, arguments={"limit": 100, "buffer": 20}),
        Row("x" * 90, "", 0.5, arguments={"limit": 100, "buffer": 20}),
        Row("x" * 100, "", 0, arguments={"limit": 100, "buffer": 20}),
        Row(
            "x " * 100,
            "",
            0.5,
            arguments={"limit": 50, "buffer": 0, "unit": "words", "penalty": 0.5},
        ),
    ],
}
