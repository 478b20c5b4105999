#!/usr/bin/env python3
"""Records how SentencePiece cuts texts with small vocabularies: python3 record_pieces.py [folder].

One is as Llama 2 has it, with a space before each text; one as Gemma, with pieces that users defined. What is
written is what a GGUF file holds of them. Needs the package sentencepiece; recorded with 0.2.1.
"""

import io
import json
import sys
from pathlib import Path

import sentencepiece as sp

TRAINED_ON = """A kiln dries clay before it fires it. The clay shrinks as the water leaves, and what was soft is hard.
Potters watch the kiln by its colour: dull red first, then orange, then a bright yellow. The firing takes a day.
When the fire is out, nobody opens the door before the next day, for cold air breaks the hot pots.
A glaze is glass: sand that melts, with what makes it melt sooner. Colours come from iron, copper and cobalt.
""".splitlines()

TEXTS = [
    "", " ", "  ", "a", "The kiln is hot.", " The kiln is hot.", "The  kiln\tis\n\nhot.", "kilnkilnkiln",
    "Überfeuer, 1300 \u00b0C", "\u7aaf \U0001f525!", "before  the    fire", "<start>The clay<end>", "it's day\n",
]

KINDS = {
    "prefix": dict(),
    "plain": dict(add_dummy_prefix=False, user_defined_symbols=["<start>", "<end>", "\u2581\u2581", "\n\n"]),
}


def record(options):
    model = io.BytesIO()
    sp.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINED_ON), model_writer=model, model_type="bpe", vocab_size=400, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2, **options,
    )
    pieces = sp.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(pieces.vocab_size())
    kind = lambda i: 2 if pieces.is_unknown(i) else 3 if pieces.is_control(i) else 6 if pieces.is_byte(i) else 1
    types = [kind(i) for i in ids]
    tokens = [pieces.id_to_piece(i) for i in ids]
    for text in options.get("user_defined_symbols", []):
        place = pieces.piece_to_id(text)
        # As llama.cpp's converter writes them.
        types[place], tokens[place] = 4, text.replace("\u2581", " ")
    texts = [dict(text=text, tokens=pieces.encode(text)) for text in TEXTS]
    return dict(tokens=tokens, scores=[pieces.get_score(i) for i in ids], types=types,
                space=options.get("add_dummy_prefix", True), texts=texts)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "recorded")
    recorded = {name: record(options) for name, options in KINDS.items()}
    (folder / "pieces.json").write_text(json.dumps(recorded) + "\n")


main()
