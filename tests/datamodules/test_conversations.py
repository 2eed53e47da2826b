"""Conversations in the forms of LLaVA and of chat messages."""

import json

import pytest
from published import jsonl, picture
from table_prompts import fault, prompts


def test_llava_conversations(tmp_path):
    (tmp_path / "a.jpg").write_bytes(picture(kind="JPEG"))
    rows = [
        {
            "id": "x/1",
            "image": "a.jpg",
            "conversations": [
                {"from": "human", "value": "<image>\nHow many?"},
                {"from": "gpt", "value": r"Two and one, so \boxed{\frac{6}{2}}."},
            ],
        },
        {
            "id": "2",
            "image": ["a.jpg"],
            "conversations": [
                {"from": "human", "value": "<image>\nWhat is it?"},
                {"from": "gpt", "value": "A cat."},
                {"from": "human", "value": "How many?"},
                {"from": "gpt", "value": "<think>1</think><answer> 1 </answer>"},
            ],
        },
        {
            "images": ["a.jpg"],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [{"type": "image"}, {"type": "text", "text": "How many?"}],
                },
                {"role": "assistant", "content": "3"},
            ],
        },
    ]
    (tmp_path / "data.json").write_text(json.dumps(rows))
    one, two, three = prompts("conversations", tmp_path, data=tmp_path / "data.json")
    assert (one.reference, one.key.split("#")[1]) == (r"\frac{6}{2}", "x_1")
    assert one.response == r"Two and one, so \boxed{\frac{6}{2}}."
    assert [part["type"] for part in one.messages[0]["content"]] == ["image", "text"]
    assert [message["role"] for message in two.messages] == ["user", "assistant", "user"]
    assert (two.reference, two.messages[0]["content"][0]) == ("1", {"type": "image"})
    assert [message["role"] for message in three.messages] == ["system", "user"]
    assert (three.reference, len(three.images)) == ("3", 1)


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([{"from": "human", "value": "Q?"}], "last two turns"),
        (
            [{"from": "bot", "value": "Q?"}, {"from": "gpt", "value": "A"}],
            "speaker is called 'bot'",
        ),
        ([{"from": "human", "value": None}, {"from": "gpt", "value": "A"}], "write a text"),
        ("Q?", "list of turns"),
    ],
)
def test_conversation_faults(tmp_path, turns, message):
    path = jsonl(tmp_path / "a.jsonl", [{"conversations": turns}])
    assert message in fault("conversations", data=path)
    assert 'line 1, field "conversations"' in fault("conversations", data=path)
