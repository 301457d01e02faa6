package secretprovider

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/agent/isolate/isolatetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "supervise" && os.Args[2] == Word {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// providers returns a directory with one provider, a shell script.
func providers(t *testing.T, script string, mode os.FileMode) *Providers {
	t.Helper()
	p := &Providers{Command: isolatetest.Command(), Dir: t.TempDir()}
	file := filepath.Join(p.Dir, "store")
	if err := errors.Join(os.WriteFile(file, []byte("#!/bin/sh\n"+script), mode), os.Chmod(file, mode)); err != nil {
		t.Fatal(err)
	}
	return p
}

// A provider gets the operation, the path and its environment, and none of the
// agent's, and can write in one directory only.
func TestAProviderAnswers(t *testing.T) {
	t.Setenv("AGENT_SECRET", "of-the-agent")
	outside := filepath.Join(t.TempDir(), "outside")
	p := providers(t, `
cat /etc/shadow >/dev/null 2>&1 && read=yes
echo x 2>/dev/null >`+outside+` && wrote=yes
echo x >"$TMPDIR/x" && own=yes
printf '{"result":{"op":"%s","path":"%s","env":"%s","cpi":"%s","agent":"%s","read":"%s","wrote":"%s","own":"%s"}}' "$1" "$2" "$STORE" "$CPI_OPERATION" "$AGENT_SECRET" "$read" "$wrote" "$own"`, 0o755)
	got, err := p.Fetch(t.Context(), "store", "a/b c", map[string]string{"STORE": "url", "CPI_OPERATION": "other"})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]string{"op": "fetch", "path": "a/b c", "env": "url", "cpi": "fetch", "agent": "", "read": "", "wrote": "", "own": "yes"} {
		if got[k] != want {
			t.Errorf("%s is %q, want %q", k, got[k], want)
		}
	}
}

// What a provider may answer, and how it may end, that is no answer. No error
// repeats what it printed.
func TestHostileProviders(t *testing.T) {
	const canary = "canary-of-a-secret"
	for name, c := range map[string]struct{ script, want string }{
		"huge":        {`yes ` + canary, "it answered with more than 65536 bytes"},
		"no JSON":     {`echo ` + canary, "its answer is not JSON"},
		"half":        {`printf '{"result":{"k":"` + canary + `"'`, "its answer is not JSON"},
		"no texts":    {`echo '{"result":{"k":{"` + canary + `":1}}}'`, "its answer is not JSON with result, an object of texts"},
		"nothing":     {`:`, "its answer is not JSON"},
		"no result":   {`echo '{"other":"` + canary + `"}'`, "its answer has no result"},
		"an error":    {`printf '{"result":{},"error":"no such\\nsecret"}'`, "it says: no such secret"},
		"both":        {`echo '{"result":{"k":"` + canary + `"},"error":"expired"}'`, "it says: expired"},
		"it fails":    {`echo ` + canary + ` >&2; exit 3`, "exit status 3"},
		"fails, says": {`echo '{"error":"denied"}'; exit 3`, "it says: denied"},
		"many items":  {`printf '{"result":{'; i=0; while [ $i -lt 1001 ]; do printf '"%s":"",' $i; i=$((i+1)); done; printf '"x":""}}'`, "at most 1000 are allowed"},
	} {
		_, err := providers(t, c.script, 0o755).Fetch(t.Context(), "store", "p", nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Only programs that nobody else could have written are run, from the one directory.
func TestWhatIsAProvider(t *testing.T) {
	for _, c := range []struct {
		name string
		mode os.FileMode
		want string
	}{
		{"other", 0o755, ErrNone.Error()},
		{"../store", 0o755, ErrNone.Error()},
		{"", 0o755, ErrNone.Error()},
		{"store", 0o644, "it is not an executable file"},
		{"store", 0o775, "others than its owner may write it"},
	} {
		_, err := providers(t, `echo '{"result":{}}'`, c.mode).Fetch(t.Context(), c.name, "p", nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %04o: got %v, want %s", c.name, c.mode, err, c.want)
		}
	}
	var none Providers
	if _, err := none.Fetch(t.Context(), "store", "p", nil); !errors.Is(err, ErrNone) {
		t.Errorf("without a directory: %v", err)
	}
}
