"""Markdown pages with generated parts: the text between <!-- made: NAME --> and <!-- end --> is replaced."""

import re

PART = re.compile(r"(<!-- made: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown_table(head, rows, page=""):
    """A Markdown table. A cell is a text, a results.Cell, or None (not measured), which becomes a dash. page: see Cell.markdown."""

    def text(cell):
        if cell is None:
            return "–"
        return cell if isinstance(cell, str) else cell.markdown(page)

    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(text(cell) for cell in row) + " |" for row in rows])


def filled(text, parts):
    """The page with its generated parts replaced by `parts`, {name: text}."""

    def replaced(match):
        if match[2] not in parts:
            raise KeyError(f"nothing makes {match[2]}")
        return f"{match[1]}\n{parts[match[2]].strip()}\n\n{match[3]}"

    return PART.sub(replaced, text)


def moved(text, folder):
    """The text with its relative links changed for a page in the parent folder of `folder`."""
    return re.sub(r"\]\((?![a-z]+:|#)", f"]({folder}/", text)


def names(text):
    return [match[2] for match in PART.finditer(text)]
