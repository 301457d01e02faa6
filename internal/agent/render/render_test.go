package render

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/templating"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "supervise" && os.Args[2] == Word {
		isolatetest.Exit(Main())
	}
	os.Exit(m.Run())
}

func run(t *testing.T, r *Request) []Result {
	t.Helper()
	out, err := Run(t.Context(), isolatetest.Command(), r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What templates want to know is named, and rendered once it is there.
func TestValues(t *testing.T) {
	r := &Request{Namespace: "default", Env: []string{"PORT=80"}, Templates: []Template{
		{Text: `{{ with nomadVar "nomad/jobs/web" }}{{ .user }}:{{ .password }}{{ end }}`},
		{Text: `{{ range nomadService "db" }}{{ .Address }}:{{ .Port }}{{ end }} {{ env "PORT" }} {{ env "HOME" }}`},
		{Text: `{{ range nomadVarList "nomad/jobs" }}{{ .Path }} {{ end }}{{ range nomadServices }}{{ .Name }}{{ end }}`},
		{Text: `[[ file "local/x" ]]{{`, Left: "[[", Right: "]]"},
		{Text: `{{ nomadVarExists "a@other" }} {{ "x" | toUpper }} {{ sprig_upper "y" }} {{ "aGk=" | base64Decode }}`},
	}}
	var missing []string
	for _, x := range run(t, r) {
		if x.Err != "" {
			t.Error(x.Err)
		}
		for _, n := range x.Missing {
			missing = append(missing, n.Kind+"|"+n.Name+"|"+n.Namespace)
		}
	}
	want := "variable|nomad/jobs/web|default, service|db|, variables|nomad/jobs|default, services||, file|local/x|, variable exists|a|other"
	if got := strings.Join(missing, ", "); got != want {
		t.Fatalf("missing: %s\nwant: %s", got, want)
	}
	r.Values = map[string]Value{
		"nomad.var.block(nomad/jobs/web@default.global)": {Kind: Var, Variable: &VariableValue{Path: "nomad/jobs/web", Items: map[string]string{"user": "u", "password": "p"}}},
		"nomad.service(db)":                         {Kind: Service, Instances: []InstanceValue{{Address: "10.0.0.1", Port: 5432}}},
		"nomad.var.list(nomad/jobs@default.global)": {Kind: VarList, Variables: []VariableValue{{Path: "nomad/jobs/web"}}},
		"nomad.services":                            {Kind: Services, Services: []ServiceValue{{Name: "db"}}},
		"file(local/x)":                             {Kind: File, Text: "content"},
		"nomad.var.get(a@other.global)":             {Kind: VarExists, Missing: true},
	}
	var got []string
	for _, x := range run(t, r) {
		if len(x.Missing) > 0 || x.Err != "" {
			t.Errorf("missing %v, %s", x.Missing, x.Err)
		}
		got = append(got, string(x.Output))
	}
	if got, want := strings.Join(got, "\n"), "u:p\n10.0.0.1:5432 80 \nnomad/jobs/web db\ncontent{{\nfalse X Y hi"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// A template reads nothing of the host, starts nothing, and ends when it uses
// too much. What other systems would answer is refused by name.
func TestAdvisory_C44_C45_HostileTemplates(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{`{{ key "a" }}`, "needs Consul"},
		{`{{ with secret "a" }}{{ end }}`, "needs Vault"},
		{`{{ plugin "/bin/sh" }}`, "would act on the host"},
		{`{{ "x" | writeToFile "/tmp/x" "" "" "0644" }}`, "would act on the host"},
		{`{{ sockaddr "GetPrivateIP" }}`, "would read the host"},
		{`{{ sprig_getHostByName "localhost" }}`, "would read the host"},
		{`{{ sprig_env "HOME" }}`, "would read the host"},
		{`{{ nofunc }}`, `there is no function "nofunc"`},
		{`{{ define "a" }}{{ key "x" }}{{ end }}`, "needs Consul"},
		{`{{ if`, "cannot be read"},
		{`{{ index (parseJSON "[1]") 7 }}`, "out of range"},
		{`{{ range loop 1 1000000000 }}{{ end }}`, "cannot be rendered"},
		{`{{ $x := "aaaaaaaaaaaaaaaa" }}{{ range loop 40 }}{{ $x = print $x $x }}{{ end }}`, "cannot be rendered"},
		{`{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`, "exceeded maximum template depth|cannot be rendered"}, // which of two bounds is met first
		{`{{ sprig_repeat 1000000000 "aaaaaaaaaa" }}`, "cannot be rendered"},
	} {
		out, err := Run(t.Context(), isolatetest.Command(), &Request{Templates: []Template{{Text: x.text}}})
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case len(out) == 1:
			got = out[0].Err
		}
		if !slices.ContainsFunc(strings.Split(x.want, "|"), func(want string) bool { return strings.Contains(got, want) }) {
			t.Errorf("%s: %q, want %q", x.text, got, x.want)
		}
	}
}

// The list of functions is the library's.
func TestFunctions(t *testing.T) {
	for _, name := range strings.Fields("nomadVar toYAML byMeta spew_dump sprig_upper and key secret") {
		if !templating.Known(name) {
			t.Errorf("%s is not known", name)
		}
	}
}

// What a renderer prints is bounded however it is copied.
func TestTheOutputIsBounded(t *testing.T) {
	b := bounded{most: 10}
	if _, err := io.Copy(&b, strings.NewReader(strings.Repeat("x", 1000))); err != nil || !b.full || b.text.Len() > 10 {
		t.Errorf("%d bytes are kept: %v", b.text.Len(), err)
	}
}
