#!/usr/bin/env python3
"""`kvick run --schema` and similar options: even a random model, which knows nothing of JSON, gives answers of the required form."""

import json
import unittest

from made_model import CommandTest

SCHEMA = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}, "born": {"type": "string", "format": "date"}},
    "required": ["name", "age", "born"], "additionalProperties": False}


class SchemaTest(CommandTest):
    COMMAND = "run"

    def schema(self, schema):
        path = self.top / "schema.json"
        path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return path

    def test_the_answer_follows_the_schema(self):
        path = self.schema(SCHEMA)
        for seed in range(3):
            result = self.json_of("-p", "Who?", "--raw", "--schema", path, "--seed", seed, "--temp", 1, "--top-k", 0)
            self.assertEqual(result["finish_reason"], "stop")
            value = json.loads(result["text"])
            self.assertLessEqual({"name", "age", "born"}, set(value))
            self.assertLessEqual(set(value), set(SCHEMA["properties"]))
            self.assertLessEqual(len(value["name"]), 6)
            self.assertIn(value["age"], range(121))
            self.assertRegex(value["born"], r"^\d{4}-\d{2}-\d{2}$")

    def test_a_greedy_answer_follows_the_schema(self):
        result = self.json_of("-p", "Who?", "--raw", "--schema", self.schema(SCHEMA), "--temp", 0)
        self.assertIn("age", json.loads(result["text"]))

    def test_answers_follow_a_grammar_and_a_regular_expression(self):
        grammar = self.top / "list.gbnf"
        grammar.write_text('root ::= item ("," item){1,3}\nitem ::= "a" | "b" [0-9]\n')
        for seed in range(2):
            sampled = ("-p", "Who?", "--raw", "--seed", seed, "--temp", 1, "--top-k", 0)
            listed = self.json_of(*sampled, "--grammar-file", grammar)
            self.assertEqual(listed["finish_reason"], "stop")
            self.assertRegex(listed["text"], r"\A(a|b\d)(,(a|b\d)){1,3}\Z")
            expression = r"(yes|no), [a-z]{1,5}\."
            self.assertRegex(self.json_of(*sampled, "--regex", expression)["text"], rf"\A{expression}\Z")

    def test_wrong_grammars_are_refused(self):
        prompt = ("-p", "Who?", "--raw")
        grammar = self.top / "wrong.gbnf"
        grammar.write_text("root ::= x\nx ::= x | (")
        self.refused(*prompt, "--grammar-file", grammar, says="wrong.gbnf: .*line 2, column 11: a group is not closed")
        self.refused(*prompt, "--regex", "a(?=b)", says="--regex: .*not supported at byte 1")
        self.refused("--regex", "a", says="--regex needs a prompt")
        self.refused(*prompt, "--regex", "a", "--grammar-file", grammar, says="--grammar-file")

    def test_wrong_schemas_are_refused(self):
        prompt = ("-p", "Who?", "--raw", "--schema")
        self.refused(*prompt, self.schema("{"), says="schema.json is not JSON: wrong at byte 2")
        deep = "[" * 500_000 + "]" * 500_000  # deeper than the stack is
        self.refused(*prompt, self.schema(f'{{"a": {deep}, "b": 1, "c": 1}}'), says="schema.json is nested more than 256 deep")
        self.refused(*prompt, self.schema('{"maximum": 1e999}'), says="schema.json has a number that is too large")
        self.refused(*prompt, self.schema({"not": {"type": "string"}}), says="schema.json: the schema at #: not is not supported")
        self.refused(*prompt, self.top / "none.json", says="cannot read .*none.json")
        self.refused(*prompt, self.top, says="cannot read .*: it is a folder")
        self.refused("-f", self.top, says="cannot read .*: it is a folder")
        self.refused("--schema", self.schema(SCHEMA), says="--schema needs a prompt")
        self.refused(*prompt, self.schema(SCHEMA), "--ignore-eos", says="--schema")


if __name__ == "__main__":
    unittest.main(verbosity=1)
