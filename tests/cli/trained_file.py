"""Shared by the tests of commands of kvick train that write a file for a policy (--kv-select POLICY:file=FILE)."""

from made_model import CommandTest


class TrainedFileTest(CommandTest):
    """COMMAND is the command of kvick train, POLICY the policy that reads its file."""

    POLICY = ""
    NAME = ""   # of the file
    QUICK = ()  # options with which a short text is enough

    def setUp(self):
        super().setUp()
        self.text = self.write_text()
        self.file = self.top / self.NAME

    def train(self, *arguments, quick=True):
        return self.as_command(type(self).COMMAND).json_of("-f", self.text, "-o", self.file, *(self.QUICK if quick else ()), *arguments)

    def refused_training(self, *arguments, says, **more):
        self.as_command(type(self).COMMAND).refused("-f", self.text, "-o", self.file, *arguments, says=says, **more)

    def table(self):
        """Trains without --json. Checks that the last line names the policy and the file, and returns all lines."""
        lines = self.as_command(type(self).COMMAND).kvick("--quiet", "-f", self.text, "-o", self.file, *self.QUICK).stdout.splitlines()
        self.assertRegex(lines[-1], f"^use: --kv-select {self.POLICY}:file=.*{self.NAME}$")
        return lines

    def ppl(self, *arguments):
        return self.as_command("ppl").json_of("-f", self.text, "--ctx", 64, *arguments)

    def refused_policy(self, select, *arguments, says, **more):
        self.as_command("ppl").refused("-f", self.text, "--ctx", 64, "--kv-select", select, *arguments, says=says, **more)

    def check_forgetting(self, *options):
        """Checks that ppl reads fewer rows with each of the options, strays from the result with all rows, and keeps all with
        budget=1.0."""
        exact = self.ppl()
        for option in options:
            some = self.ppl("--kv-select", f"{self.POLICY}:file={self.file},{option}", "--against", "virtual")
            self.assertLess(some["kv_read_bytes_per_token"], exact["kv_read_bytes_per_token"])
            self.assertGreater(some["kl_mean"], 0)
        all_rows = self.ppl("--kv-select", f"{self.POLICY}:file={self.file},budget=1.0")
        self.assertAlmostEqual(all_rows["perplexity"], exact["perplexity"], 3)

    def check_plan(self, options):
        """Checks that kvick plan needs no file to predict a smaller cache, and says why it predicts no speed."""
        self.COMMAND = "plan"
        select = ("--kv-select", f"{self.POLICY}:{options}")
        self.assertLess(self.json_of("--ctx", 64, *select)["kv_bytes"], self.json_of("--ctx", 64)["kv_bytes"])
        self.assertIn(f"no speed is predicted: only a few layers are measured, but a file of {self.POLICY} covers all layers of a model",
                      self.kvick("--ctx", 64, *select).stdout)
