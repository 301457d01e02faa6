package jobspec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"berth/internal/decode"

	"berth"
	"berth/internal/cputime"
)

// expression is a job whose only attribute is the expression.
func expression(e string) string { return "job \"a\" {\n meta {\n  x = " + e + "\n }\n}\n" }

func withLocals(locals, e string) string { return "locals {\n" + locals + "\n}\n" + expression(e) }

// doubling defines local.a0 to local.aN, each by the one before it, @.
func doubling(first, next string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a0 = %s\n", first)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "a%d = %s\n", i, strings.ReplaceAll(next, "@", fmt.Sprintf("local.a%d", i-1)))
	}
	return b.String()
}

func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Texts made to cost a server its time or its memory end soon and with a
// sentence.
func TestHostile(t *testing.T) {
	rep := strings.Repeat
	const thousand = "l = [for i in range(1000): i]"
	half := "s = \"" + rep("x", 50_000) + "\""
	tests := []struct{ name, text, want string }{
		// Of the text.
		{"dense", rep("[", 1<<20), "at most 150000 words and punctuation marks are allowed, got 1048576"},
		{"brackets", expression(rep("[", 140_000)), "nested deeper than 64"},
		{"braces", rep("a {\n", 45_000), "nested deeper than 64"},
		{"interpolations", expression(rep(`"${`, 45_000)), "nested deeper than 64"},
		{"not not", expression(rep("!", 140_000) + "true"), "more than 1000 operators"},
		{"minus", expression(rep("-", 140_000) + "1"), "more than 1000 operators"},
		{"sum", expression("1" + rep("+1", 70_000)), "more than 1000 operators"},
		{"sum over lines", expression("(1" + rep("+\n1", 40_000) + ")"), "more than 1000 operators"},
		{"sum in a for", expression("{for a in b :\n a => 1" + rep("+\n1", 40_000) + "}"), "more than 1000 operators"},
		{"conditions", expression(rep("a?b:", 35_000) + "1"), "more than 1000 operators"},
		{"attributes", expression("f()" + rep(".a", 70_000)), "more than 1000 operators"},
		{"splats", expression("[]" + rep("[*]", 45_000)), "more than 1000 operators"},
		{"indexes", expression("a" + rep("[b]", 45_000)), "more than 1000 operators"},
		{"directives", expression(`"` + rep("%{if true}", 25_000) + `"`), "more than 1000 operators"},
		{"directives in a heredoc", expression("<<A\n" + rep("%{if true}\n", 20_000) + "A"), "more than 1000 operators"},
		{"blocks", rep("a{}\n", 37_000), "more than 10000 blocks"},
		{"attributes of one body", "job \"a\" {\n" + lines(37_000, "a%d=1\n") + "}", "unknown attribute"},
		{"number of many digits", expression(rep("1", 5000)), "a number can have at most 64 digits, got 5000"},
		{"text of many pieces", expression(`"` + rep("% ", 70_000) + `"`), "the text has too many lines or % and $ signs"},
		{"text of many lines", expression("<<A\n" + rep("x\n", 70_000) + "A"), "the text has too many lines or % and $ signs"},
		{"texts of many pieces", expression(`["` + rep(rep("% ", 5000)+`","`, 12) + `"]`), "the text has too many lines or % and $ signs"},
		{"many names", "locals {\n" + lines(11_000, "l%d=1\n") + "}\n" + expression("[for k, v in local: [for k, v in local: k]]"), "take more than 300000 steps"},

		// Numbers that print as endless text.
		{"exponent", expression("1e1000000000"), "number is out of range"},
		{"exponent in text", expression(`"${1e100000000}"`), "number is out of range"},
		{"exponent by sum", expression(`"${"1e100000000" + 1}"`), "number is out of range"},
		{"exponent by conversion", expression(`tostring(tonumber("1e100000000"))`), "number is out of range"},
		{"exponent from JSON", expression(`jsonencode(jsondecode("1e100000000"))`), "number is out of range"},
		{"exponent by convert", expression(`"${convert("1e100000000", number)}"`), "number is out of range"},
		{"small exponent", expression(`"${1e-100000000}"`), "number is out of range"},
		{"power", expression("pow(10, 1000000)"), "number is out of range"},
		{"squares", withLocals(doubling("10", "@*@", 40), `"${local.a40}"`), "number is out of range"},
		{"parseint", expression(`parseint("` + rep("z", 5000) + `", 36)`), "must be at most 4096 bytes, got 5000"},

		// Loops and growth.
		{"loops", withLocals(thousand, "[for a in local.l: [for b in local.l: [for c in local.l: 1 if false]]]"), "take more than 300000 steps"},
		{"loops that only refer", withLocals(thousand, "[for a in local.l: [for b in local.l: b]]"), "take more than 300000 steps"},
		{"loops of faults", expression(`[for i in range(1000): [for j in range(1000): 1 + "x"]]`), "take more than 300000 steps"},
		{"loops in a template", expression(`"%{for a in range(1000)}%{for b in range(1000)}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx%{endfor}%{endfor}"`), "take more than 300000 steps"},
		{"doubled text", withLocals(doubling(`"xxxxxxxxxxxxxxxx ${1}"`, `"${@}${@}"`, 40), "local.a40"), "a value can have at most 4194304 bytes"},
		{"doubled list", withLocals(doubling("[1,1]", "[@,@]", 60), "local.a60"), "a value can have at most 100000 elements"},
		{"doubled object", withLocals(doubling("{}", "{a=@,b=@}", 60), "local.a60"), "a value can have at most 100000 elements"},
		{"doubled concat", withLocals(doubling("[1]", "concat(@,@)", 60), "local.a60"), "the expressions of the file take more than 300000 steps"},
		{"dynamic in dynamic", "job \"a\" {\n dynamic \"group\" {\n for_each = range(1000)\n labels = [\"g${group.value}\"]\n content {\n dynamic \"task\" {\n for_each = range(1000)\n labels = [\"t\"]\n content {}\n}\n}\n}\n}",
			"the expressions of the file take more than 300000 steps"},

		{"dynamic", "job \"a\" {\n dynamic \"group\" {\n for_each = range(1000)\n labels = [\"g${group.value}\"]\n content {\n" + rep("constraint {}\n", 11) + "}\n}\n}",
			"more than 10000 blocks, including generated ones"},
		{"shared texts", withLocals("s = \"${\""+rep("x", 3000)+"\"}y\"\nl = [for i in range(1000): local.s]\nm = [for i in range(100): local.l]", "local.m"), "a value can have at most 4194304 bytes"},
		{"elements of several values", withLocals(doubling("[for i in range(1000): i]", "[for i in range(1000): [i, i, i, i, i, i, i, i]]", 30), "1"), "produce more than 200000 elements"},

		// Functions.
		{"format width", expression(`format("%1000000000s", "a")`), "at most three digits"},
		{"format width from an argument", expression(`format("%*d", 1000000000, 1)`), "at most three digits"},
		{"format of much", withLocals(half, `format("`+rep("%[1]s", 5000)+`", local.s)`), "the result would be too large"},
		{"range", expression("range(1e9)"), "more than 1024"},
		{"range of small steps", expression("range(0, 1, 1e-300)"), "more than 1024"},
		{"setproduct", withLocals(thousand, "setproduct(local.l, local.l, local.l)"), "the result would be too large"},
		{"join", withLocals(half+"\nl = [for i in range(1000): \"\"]", "join(local.s, local.l)"), "the result would be too large"},
		{"replace", withLocals(half, `replace(local.s, "x", local.s)`), "the result would be too large"},
		{"replace between", withLocals(half, `replace(local.s, "", local.s)`), "the result would be too large"},
		{"regex_replace", withLocals("s = \""+rep("x", 50_000)+"\"", `regex_replace(local.s, "x", local.s)`), "the result would be too large"},
		{"regex_replace by groups", withLocals("s = \""+rep("x", 50_000)+"\"", `regex_replace(local.s, "(.*)", "`+rep("$1", 5000)+`")`), "the result would be too large"},
		{"regex of many states", withLocals("s = \""+rep("x", 90_000)+"\"", `regex("((x{30}){30})y", local.s)`), "together are too large"},
		{"regex in a loop", withLocals("s = \""+rep("x", 50_000)+"\"", `[for i in range(1000): can(regex("(x+x+)+y", local.s))]`), "take more than 300000 steps"},
		{"regexall", withLocals("s = \""+rep("x", 110_000)+"\"", `regexall("x", local.s)`), "together are too large"},
		{"split", withLocals("s = \""+rep("x", 110_000)+"\"", `split("", local.s)`), "the result would be too large"},
		{"indent", expression(`indent(1000000000, "a\nb")`), "at most 1000 spaces"},
		{"JSON of many values", expression(`jsondecode("[` + rep("[],", 45_000) + `1]")`), ""},
		{"JSON that nests", expression(`jsondecode("` + rep("[", 100_000) + `")`), "nested deeper than 64"},
		{"JSON of the JSON", withLocals(doubling(`"\"x"`, "jsonencode(@)", 30), "local.a30"), "a value can have at most 4194304 bytes"},
		{"YAML that nests", expression(`yamldecode("` + rep("[", 100_000) + `")`), "nested too deeply"},
		{"YAML of aliases", expression("yamldecode(<<Y\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\nY\n)"), "aliases (*name) are not allowed"},
		{"bcrypt", expression(`bcrypt("x", 31)`), "the cost must be 4 to 12, got 31"},
		{"bcrypt in a loop", expression(`[for i in range(1000): bcrypt("x")]`), "take more than 300000 steps"},
		{"hashes in a loop", withLocals(half, "[for i in range(1000): sha512(local.s)]"), "produce or read more than 16777216 bytes"},
		{"contains in a loop", withLocals(thousand, "[for i in local.l: [for j in local.l: contains(local.l, -1)]]"), "take more than 300000 steps"},
		{"comparison in a loop", withLocals(thousand, "[for i in local.l: [for j in local.l: local.l == local.l]]"), "take more than 300000 steps"},
		{"types of a condition", withLocals(thousand+"\nm = [for i in range(999): i]", "[for i in local.l: length(true ? local.l : local.m)]"), "take more than 300000 steps"},
		{"conversion in a loop", withLocals(thousand, "[for i in local.l: [for j in local.l: length(convert(local.l, list(string)))]]"), "take more than 300000 steps"},
		{"distinct", withLocals("m = flatten([for i in range(5): [for j in range(1000) : \"${i}-${j}\"]])", "distinct(local.m)"), "take more than 300000 steps"},
		{"subnets", expression(`cidrsubnets("::/0"` + rep(", 1", 20_000) + ")"), ""},
		{"far host", expression(`cidrhost("10.0.0.0/8", 1e300)`), "cidrhost"},
		{"far subnet", expression(`cidrsubnet("10.0.0.0/8", 1000000000, 1e300)`), "cidrsubnet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var err error
			took := cputime.Of(func() { _, err = ParseTree(context.Background(), File{"a.nomad", []byte(tt.text)}, Options{}) })
			if took > 20*time.Second { // usually below one
				t.Errorf("took %v of CPU time", took)
			}
			if err == nil {
				if tt.want != "" {
					t.Error("it was let through")
				}
				return
			}
			if berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 20_000 {
				t.Errorf("want %q, got %.500v", tt.want, err)
			}
		})
	}
}

// Values from outside are bounded like the file is.
func TestHostileValues(t *testing.T) {
	file := File{"a.nomad", []byte("variable \"v\" {\n type = any\n}\nvariable \"o\" {\n type = list(object({ a = optional(list(number), [" + strings.Repeat("1,", 2000) + "1]) }))\n default = []\n}\njob \"a\" {\n meta {\n x = length(jsonencode(var.v))\n}\n}\n")}
	for name, o := range map[string]Options{
		"nested -var":           {Vars: []string{"v=" + strings.Repeat("[", 100_000)}},
		"a -var that loops":     {Vars: []string{"v=[for a in range(1000): [for b in range(1000): a]]"}},
		"large -var":            {Vars: []string{"v=" + strings.Repeat("x", MaxText+1)}},
		"many -var":             {Vars: make([]string, maxVars+1)},
		"nested variable file":  {VarFiles: []File{{"a.vars", []byte("v = " + strings.Repeat("[", 100_000))}}},
		"nested JSON":           {VarFiles: []File{{"a.json", []byte(`{"v": ` + strings.Repeat("[", 100_000) + `}`)}}},
		"large variable file":   {VarFiles: []File{{"a.vars", []byte("v = \"" + strings.Repeat("x", MaxText) + "\"")}}},
		"UTF-8 in a file":       {VarFiles: []File{{"a.vars", []byte("v = \"\xff\"")}}},
		"many shared defaults":  {Vars: []string{"v=1", "o=[" + strings.Repeat("{},", 1000) + "{}]"}},
		"UTF-8 in a -var":       {Vars: []string{"v=[\"\xff\"]"}},
		"huge number in a -var": {Vars: []string{"v=1e100000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseTree(context.Background(), file, o)
			if berth.KindOf(err) != berth.Invalid || len(err.Error()) > 20_000 {
				t.Errorf("got %.500v", err)
			}
		})
	}
}

func TestTextTooLarge(t *testing.T) {
	for _, text := range []string{strings.Repeat(" ", MaxText+1), "{" + strings.Repeat(" ", 10<<20)} {
		_, err := Parse(context.Background(), File{"big.nomad", []byte(text)}, Options{})
		if berth.KindOf(err) != berth.TooLarge || err.Error() != "big.nomad: at most 1048576 bytes are allowed" {
			t.Errorf("got %v", err)
		}
	}
}

func TestNotUTF8(t *testing.T) {
	for text, want := range map[string]string{
		"job \"a\" {\n  name = \"é\xffx\"\n}": "web.nomad:2,12: byte 0xff is not UTF-8 text",
		"\xff":                                "web.nomad:1,1: byte 0xff is not UTF-8 text",
		"{\"ID\": \"\xc3\"}":                  "web.nomad:1,9: byte 0xc3 is not UTF-8 text",
	} {
		_, err := Parse(context.Background(), File{"web.nomad", []byte(text)}, Options{})
		if berth.KindOf(err) != berth.Invalid || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// A caller that goes away ends the parse.
func TestContext(t *testing.T) {
	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(gone)
	text := expression("[for a in range(1000): [for b in range(100): a]]")
	_, err := Parse(ctx, File{"a.nomad", []byte(text)}, Options{})
	if !errors.Is(err, gone) || berth.KindOf(err) != berth.Invalid {
		t.Errorf("got %v", err)
	}
}

// A file can be wrong in a million places; the first few hundred are told.
func TestManyProblems(t *testing.T) {
	_, err := Parse(context.Background(), File{"a.nomad", []byte("job \"a\" {\n" + lines(5000, "a%d=1\n") + "}")}, Options{})
	ps, _ := errors.AsType[berth.Problems](err)
	if len(ps) != maxProblems {
		t.Errorf("%d problems", len(ps))
	}
}

// LocalFiles reads what the process may read, relative names from its folder.
func TestLocalFiles(t *testing.T) {
	dir := t.TempDir()
	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, text := range map[string]string{
		filepath.Join(dir, "job", "a.txt"): "a ${x}", filepath.Join(dir, "b.txt"): "b", filepath.Join(home, "c.txt"): "c",
		filepath.Join(dir, "job", "bin"): "\xff\x00", filepath.Join(dir, "job", "big"): strings.Repeat("x", MaxText+1),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Files: LocalFiles(filepath.Join(dir, "job"))}
	for e, want := range map[string]any{
		`file("a.txt")`:                                "a ${x}",
		`fileescaped("./a.txt")`:                       "a $${x}",
		`file("../b.txt")`:                             "b",
		fmt.Sprintf("file(%q)", dir+"/b.txt"):          "b",
		`file("~/c.txt")`:                              "c",
		`filebase64("bin")`:                            "/wA=",
		`abspath("a.txt")`:                             dir + "/job/a.txt",
		`pathexpand("~/c.txt")`:                        home + "/c.txt",
		`join(" ", fileset("..", "**.txt"))`:           "b.txt",
		`join(" ", fileset("..", "**/*.txt"))`:         "b.txt job/a.txt",
		`fileexists("a.txt") && !fileexists("no.txt")`: true,
	} {
		tree, err := ParseTree(context.Background(), File{"a.nomad", []byte(expression(e))}, o)
		if err != nil {
			t.Errorf("%s: %v", e, err)
			continue
		}
		if got := tree["Meta"].(decode.Tree)["x"]; got != want {
			t.Errorf("%s is %v, want %v", e, got, want)
		}
	}
	for e, want := range map[string]string{
		`file("bin")`:        `"bin" is not UTF-8 text; filebase64 reads any file`,
		`file("big")`:        `"big" must be at most 1048576 bytes`,
		`file("no.txt")`:     `"no.txt" cannot be read: no such file or directory`,
		`file("a\u0000b")`:   `must be a file name`,
		`file(".")`:          `"." cannot be read: is a directory`,
		`fileexists(".")`:    `"." is not a regular file`,
		`fileset(".", "[a")`: `must be a pattern, got "[a"`,
	} {
		_, err := ParseTree(context.Background(), File{"a.nomad", []byte(expression(e))}, o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", e, err)
		}
	}
}

// Reading files counts against the budget of the parse.
func TestFilesAreBounded(t *testing.T) {
	o := Options{Files: fstest.MapFS{"big": &fstest.MapFile{Data: []byte(strings.Repeat("x", 1_000_000))}}}
	_, err := ParseTree(context.Background(), File{"a.nomad", []byte(expression(`[for i in range(1000): length(file("big"))]`))}, o)
	if err == nil || !strings.Contains(err.Error(), "produce or read more than 16777216 bytes") {
		t.Errorf("got %v", err)
	}
}
