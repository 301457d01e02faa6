package cli

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// group wraps text into a job with one group and one task that are complete.
func inGroup(text string) string {
	return "job \"a\" {\n  group \"g\" {\n" + text + "\n    task \"t\" {\n      driver = \"raw_exec\"\n      config {\n        command = \"/bin/true\"\n      }\n    }\n  }\n}\n"
}

// inTask is inGroup for text in the task.
func inTask(text string) string {
	return "job \"a\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"raw_exec\"\n      config {\n        command = \"/bin/true\"\n      }\n" + text + "\n    }\n  }\n}\n"
}

// inJob is inGroup for text in the job.
func inJob(text string) string {
	return "job \"a\" {\n" + text + "\n  group \"g\" {\n    task \"t\" {\n      driver = \"raw_exec\"\n      config {\n        command = \"/bin/true\"\n      }\n    }\n  }\n}\n"
}

var updateBroken = flag.Bool("update-broken", false, "write what is said of broken inputs again")

// said compares what is said of each of some broken inputs with a file, which a
// person has read.
func said(t *testing.T, file string, sentences map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sentences)) {
		fmt.Fprintf(&b, "# %s\n%s\n", name, sentences[name])
	}
	file = filepath.Join("testdata", "broken", file)
	if *updateBroken {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s has:\n%s\ngot:\n%s", file, want, b.String())
	}
}

// Broken job files: each is refused with its line, and with words that say what
// is wrong with which value.
func TestBrokenJobFiles(t *testing.T) {
	dir, got := t.TempDir(), map[string]string{}
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "job"},
		"no job":             {"group \"g\" {}\n", "group"},
		"two jobs":           {"job \"a\" {}\njob \"b\" {}\n", "job"},
		"no label":           {"job {}\n", "job"},
		"missing brace":      {"job \"a\" {\n", "x.hcl:"},
		"missing quote":      {"job \"a {\n}\n", "x.hcl:1"},
		"stray brace":        {"job \"a\" {\n}\n}\n", "x.hcl:3"},
		"no value":           {inJob("  priority ="), "x.hcl:2"},
		"type of priority":   {inJob("  priority = \"high\""), "\"high\""},
		"large priority":     {inJob("  priority = 40000"), "40000"},
		"unknown type":       {inJob("  type = \"servise\""), "\"servise\""},
		"unknown key":        {inJob("  datacentres = [\"dc1\"]"), "datacenters"},
		"unknown block":      {inJob("  grupo \"x\" {\n  }"), "grupo"},
		"bad region":         {inJob("  region = \"\\u0000\""), "region"},
		"negative count":     {inGroup("    count = -1"), "-1"},
		"text count":         {inGroup("    count = \"many\""), "\"many\""},
		"group without task": {"job \"a\" {\n  group \"g\" {}\n}\n", "task"},
		"same group twice":   {"job \"a\" {\n" + strings.Repeat("  group \"g\" {\n    task \"t\" {\n      driver = \"raw_exec\"\n    }\n  }\n", 2) + "}\n", "\"g\""},
		"no driver":          {"job \"a\" {\n  group \"g\" {\n    task \"t\" {}\n  }\n}\n", "driver"},
		"bad duration":       {inGroup("    restart {\n      interval = \"5 minutes\"\n    }"), "5 minutes"},
		"bad restart mode":   {inGroup("    restart {\n      mode = \"never\"\n    }"), "never"},
		"bad constraint":     {inGroup("    constraint {\n      attribute = \"x\"\n      operator = \"~~\"\n    }"), "~~"},
		"bad regexp":         {inGroup("    constraint {\n      attribute = \"x\"\n      operator = \"regexp\"\n      value = \"(\"\n    }"), "regexp"},
		"bad port":           {inGroup("    network {\n      port \"p\" {\n        static = 70000\n      }\n    }"), "70000"},
		"bad network mode":   {inGroup("    network {\n      mode = \"brige\"\n    }"), "brige"},
		"no memory":          {inTask("      resources {\n        memory = 0\n      }"), "memory"},
		"text cpu":           {inTask("      resources {\n        cpu = \"fast\"\n      }"), "\"fast\""},
		"config typo":        {inTask("      logs {\n        max_file = 3\n      }"), "max_files"},
		"bad signal":         {inTask("      kill_signal = \"SIGNOPE\""), "SIGNOPE"},
		"unknown function":   {inTask("      user = uper(\"x\")"), "upper"},
		"unknown variable":   {inTask("      user = var.nme"), "nme"},
		"function's fault":   {inTask("      user = element([], 0)"), "element"},
		"division by zero":   {inJob("  priority = 1 / 0"), "x.hcl:2,18-19: job.priority: division by zero"},
		"zero by zero":       {inJob("  priority = 0 / \"0\""), "job.priority: division by zero"},
		"rest of zero":       {inJob("  priority = 5 % (1 - 1)\n  datacentres = []"), "job.priority: division by zero"},
		"zero in a local":    {"locals {\n  a = 1 / 0\n}\n" + inJob("  priority = local.a"), "x.hcl:2,11-12: local.a: division by zero"},
		"huge number":        {inJob("  priority = 1e1000000000"), "x.hcl:2,14-26: job.priority: the number is out of range"},
		"infinite number":    {inJob("  priority = log(0, 2)"), "job.priority: the number is out of range"},
		"too few arguments":  {inTask("      user = upper()"), "job.group[g].task[t].user: Not enough function arguments"},
		"too many arguments": {inTask("      user = upper(\"x\", \"y\")"), "job.group[g].task[t].user: Too many function arguments"},
		"wrong argument":     {inTask("      user = upper([])"), "job.group[g].task[t].user: Invalid function argument"},
		"wrong operand":      {inJob("  priority = \"high\" + 1"), "x.hcl:2,14-20: job.priority: "},
		"index out of range": {inTask("      user = [\"a\", \"b\"][5]"), "job.group[g].task[t].user: "},
		"missing key":        {inTask("      user = { a = 1 }.b"), "job.group[g].task[t].user: "},
		"null operand":       {inJob("  priority = null + 1"), "job.priority: "},
		"null in a text":     {inTask("      user = \"a${null}\""), "job.group[g].task[t].user: "},
		"endless loop":       {inTask("      user = length([for a in range(1000) : [for b in range(1000) : a]])"), "job.group[g].task[t].user: the expressions of the file take more than"},
		"bad cron":           {inJob("  type = \"batch\"\n  periodic {\n    cron = \"every day\"\n  }"), "every day"},
		"bad time zone":      {inJob("  type = \"batch\"\n  periodic {\n    cron = \"* * * * *\"\n    time_zone = \"Mars/Base\"\n  }"), "Mars/Base"},
		"csi":                {inGroup("    volume \"v\" {\n      type = \"hosst\"\n    }"), "hosst"},
		"parallel":           {inJob("  update {\n    max_parallel = -2\n  }"), "-2"},
		"json":               {"{\"Job\": {\"ID\": 5}}", "5"},
		"json syntax":        {"{\"Job\": ", "x.hcl"},
		"not text":           {"job \"\xff\" {}\n", "0xff"},
	} {
		got[name] = refused(t, dir, "x.hcl", c.text, c.want, "job", "run", "-output", "x.hcl")
	}
	said(t, "jobs.txt", got)
}

// refused writes a file and runs a command line that must fail with exit code 1
// and a message that has want, without a panic and without output. It returns the
// message, in which $DIR is the directory.
func refused(t *testing.T, dir, file, text, want string, args ...string) string {
	t.Helper()
	if file != "" {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs strings.Builder
	p := &Program{Name: "berth", Args: args, Dir: dir, In: strings.NewReader(""), Out: &out, Err: &errs, Now: time.Now, Env: []string{"BERTH_ADDR=http://127.0.0.1:1"}}
	code := p.Run(context.Background())
	if code != 1 || !strings.HasPrefix(errs.String(), "Error: ") || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "panic") || out.Len() > 0 {
		t.Errorf("%v: exit code %d, want %q in\n%s%s", args, code, want, errs.String(), out.String())
	}
	return strings.ReplaceAll(errs.String(), dir, "$DIR")
}

// Broken configurations: each names its file, line and value.
func TestBrokenConfigurations(t *testing.T) {
	dir, got := t.TempDir(), map[string]string{}
	const server = "data_dir = \"/tmp/x\"\nserver {\n  enabled = true\n}\n"
	for name, c := range map[string]struct{ text, want string }{
		"typo":             {server + "regoin = \"eu\"\n", "region"},
		"type":             {server + "log_json = \"maybe\"\n", "c.hcl:5"},
		"level":            {server + "log_level = \"loud\"\n", "loud"},
		"port":             {server + "ports {\n  http = 99999\n}\n", "99999"},
		"address":          {server + "bind_addr = \"not an address\"\n", "not an address"},
		"no role":          {"data_dir = \"/tmp/x\"\n", "server"},
		"no directory":     {"server {\n  enabled = true\n}\n", "data_dir"},
		"relative":         {"data_dir = \"x\"\nserver {\n  enabled = true\n}\n", "data_dir"},
		"syntax":           {"server {\n", "c.hcl"},
		"negative":         {server + "server {\n  bootstrap_expect = -1\n}\n", "-1"},
		"duration":         {server + "server {\n  heartbeat_grace = \"soon\"\n}\n", "soon"},
		"vault":            {server + "vault {\n  enabled = true\n}\n", "vault"},
		"consul":           {server + "consul {\n  address = \"x:1\"\n}\n", "consul"},
		"merged port":      {server + "ports {\n  http = \"http\"\n}\n", "http"},
		"unknown block":    {server + "servr {\n  enabled = true\n}\n", "did you mean server?"},
		"tls without cert": {server + "tls {\n  http = true\n}\n", "tls"},
	} {
		got[name] = refused(t, dir, "c.hcl", c.text, c.want, "config", "validate", "c.hcl")
	}
	said(t, "configurations.txt", got)
}

// Broken command lines: each names the flag or argument, its value and what is
// allowed.
func TestBrokenFlags(t *testing.T) {
	dir, got := t.TempDir(), map[string]string{}
	for line, want := range map[string]string{
		"job run":                               "missing argument",
		"job run a b":                           "unexpected argument \"b\"",
		"job run -detatch x":                    "did you mean -detach?",
		"job run -eval-priority high x":         "flag -eval-priority must be an integer, got \"high\"",
		"job run -check-index -1 x.hcl":         "x.hcl",
		"job run -vault-namespace x y":          "flag -vault-namespace is not supported",
		"job status -json -t x":                 "-json and -t cannot be used together",
		"job history -version one web":          "-version must be a version number, got \"one\"",
		"job scale web -5 -6 -7":                "unexpected argument",
		"alloc logs":                            "missing argument",
		"alloc logs -n -1 abcd":                 "flag -n must be at least 0, got -1",
		"node eligibility":                      "-enable",
		"eval list -per-page 5000":              "flag -per-page must be between 0 and 1000, got 5000",
		"namespace apply":                       "missing argument",
		"operator raft remove-peer":             "-peer-id or -peer-address is required",
		"operator scheduler set-config -x":      "unknown flag -x",
		"top -interval 1ms":                     "flag -interval must be between 200ms and 1h, got 1ms",
		"status -address ftp://x y":             "ftp://x",
		"operator metrics -format xml":          "must be json or prometheus, got \"xml\"",
		"jbo run":                               "did you mean job?",
		"sentinel list":                         "Sentinel policies are a feature of Nomad Enterprise",
		"recommendation apply x":                "a feature of Nomad Enterprise",
		"license get":                           "Berth has no licenses",
		"job status -tls-skip-verify=perhaps x": "must be true or false, got \"perhaps\"",
	} {
		got[line] = refused(t, dir, "", "", want, strings.Fields(line)...)
	}
	said(t, "flags.txt", got)
}
