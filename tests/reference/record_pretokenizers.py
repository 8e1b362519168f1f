#!/usr/bin/env python3
"""Records how Hugging Face's tokenizers splits text with the published regular expressions, for
src/text/tokenizer/pretokenize_test.cc. Run by hand.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tests/reference/record_pretokenizers.py

pretokenizers.json: for each value of tokenizer.ggml.pre below, the parts of 60 random texts of difficult characters.
"""
import json
import pathlib
import random

from tokenizers import Regex
from tokenizers.pre_tokenizers import Sequence, Split

HERE = pathlib.Path(__file__).resolve().parent
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"]
ASCII_WORDS = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + TAIL)
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL
# The letters of scripts with upper and lower case.
CASED_LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥ"
    "ῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")

PATTERNS = {
    "gpt-2": [WORDS],
    "smollm": [r"\p{N}", WORDS],
    "qwen2": [QWEN2],
    "llama-bpe": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL],
    "gpt-4o": [f"{CASED[0]}{CONTRACTION}?|{CASED[1]}{CONTRACTION}?" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "tekken": [f"{CASED[0]}|{CASED[1]}" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "qwen35": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + TAIL],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", ASCII_WORDS],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "afmoe": [r"\p{N}+", r"\p{N}{1,3}(?=(?:\p{N}{3})*$)",
              "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+", ASCII_WORDS],
    "kimi-k2": [r"[\p{Han}]+|" + "|".join(
        rf"[^\r\n\p{{L}}\p{{N}}]?(?:(?!\p{{Han}}){UPPER}){first}(?:(?!\p{{Han}}){LOWER}){second}{CONTRACTION}?"
        for first, second in ("*+", "+*")) + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + TAIL],
    "exaone-moe": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "minicpm5": [r"\p{N}{1,3}", CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL],
    "bloom": [" ?[^(\\s|.,!?…。，、।۔،)]+"],
    "laguna": [r"[^\n]+|[\n]+", QWEN2],
    "deepseek-llm": ["[\r\n]", r"\s?[" + CASED_LETTERS + "]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}+"],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
              f"{CASED[0]}{CONTRACTION}?|{CASED[1]}{CONTRACTION}?" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", f"{CASED[0]}{CONTRACTION}?|{CASED[1]}{CONTRACTION}?" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", WORDS],
    "deepseek-v2": ["[\r\n]", r"\s?[" + CASED_LETTERS + "]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
}
PARTS = [" ", " ", " ", "  ", "\n", "\r\n", "\t", "'", "'s", "'S", "'ll", "'Re", "'x", "a", "Zz", "ABc", "dEF", "é", "É", "ж", "中", "文", "한", "ひ",
         "カ", "ก", "ǅ", "ʰ", "ª", "́", "1", "12", "3456", "7890123", "٣", "½", ".", ",", "!?", "$", "+", "/", "//", "-", "_", "(", "|", "。", "、", "€",
         "😀", "‍", " ", " ", "　", "​"]


def texts(draw):
    for _ in range(60):
        yield "".join(draw.choice(PARTS) for _ in range(1 + draw.randrange(24)))


def main():
    out = {}
    for seed, (name, patterns) in enumerate(PATTERNS.items()):
        pre = Sequence([Split(Regex(p), "isolated") for p in patterns])
        out[name] = [[piece for piece, _ in pre.pre_tokenize_str(text)] for text in texts(random.Random(seed))]
    (HERE / "pretokenizers.json").write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
