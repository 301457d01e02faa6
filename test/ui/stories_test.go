package ui

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// One agent and one browser play the stories; each has tabs of its own. The last
// one kills the agent.
func TestUI(t *testing.T) {
	c := full(t)
	b := newBrowser(t)
	for _, s := range []struct {
		name string
		play func(*testing.T, *cluster, *browser)
	}{
		{"Pages", testPages}, {"WhyAndRepair", testWhyAndRepair}, {"ProblemsInAJobFile", testProblems}, {"Keys", testKeys},
		{"Terminal", testTerminal}, {"LostConnection", testLost},
	} {
		t.Run(s.name, func(t *testing.T) { s.play(t, c, b) })
	}
}

// A new user finds out from the overview why a job does not run, makes the
// smallest change that helps, sees what it would do, and runs it.
func testWhyAndRepair(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopLight)
	p.open("/")
	p.sees("things need attention", "9000000 MiB of memory asked")
	p.press("report-builder")
	p.sees("What would help")
	p.picture("story-why")
	p.press("Make this change")
	p.sees("This change was made")
	p.press("See what would happen")
	p.sees("all of it can be placed", "build: 1 created")
	p.picture("story-plan")
	p.press("Run it")
	p.sees("crunch")
	p.gone("waiting for capacity")
	p.sees("running")
	p.picture("story-runs")
	c.shows("/v1/job/report-builder/summary", `"Running":1`)
	// It took all memory that was free, and other stories need some.
	c.ask("DELETE", "/v1/job/report-builder", "", "")
	c.shows("/v1/job/report-builder/allocations", `"ClientStatus":"complete"`)
}

// A problem in a job file is shown at its line, and nothing runs.
func testProblems(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopDark)
	p.open("/run")
	p.sees("Nothing runs before")
	p.fill(`textarea[aria-label="Job file"]`, "job \"broken\" {\n  grp \"g\" {}\n}\n")
	p.press("See what would happen")
	p.sees("line 2:", "grp")
	p.has(".squiggle")
	p.picture("story-problem")
	if got := c.get("/v1/job/broken"); strings.Contains(got, "grp") {
		t.Errorf("a job was registered: %s", got)
	}
}

// Keys and the palette lead anywhere; a link that is copied restores the view.
func testKeys(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopLight)
	p.open("/")
	p.sees("Needs attention")
	p.keys("g", "j")
	p.sees("Run a job", "web", "nightly")
	p.keys("j")
	p.has(`tr[aria-selected="true"]`)
	p.keys("Enter")
	p.sees("Definition")
	p.keys("Ctrl+k")
	p.fill("dialog.palette input", "topol")
	p.sees("Topology")
	p.keys("Enter")
	p.sees("By node pool")
	p.keys("?")
	p.sees("Keyboard shortcuts")
	p.keys("Escape")
	p.gone("next row")
	p.open("/jobs?q=we&type=service")
	p.sees("1 job")
	var at string
	p.eval(`location.href`, &at)
	if !strings.HasSuffix(at, "/ui/jobs?q=we&type=service") {
		t.Errorf("the address is %s", at)
	}
}

// A command runs in a terminal beside a task.
func testTerminal(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopDark)
	p.open("/alloc/" + c.first("/v1/job/web/allocations", "ID") + "/exec")
	p.press("Open the terminal")
	p.sees("Connected")
	p.becomes("the terminal has the keys", `!!document.activeElement?.closest('.xterm')`)
	p.becomes("the shell asks", `[...document.querySelectorAll('.xterm [role=listitem]')].some((e) => e.textContent.includes('#'))`)
	p.typed("echo 6x$((6*7))x")
	p.keys("Enter")
	p.sees("6x42x")
	p.picture("story-terminal")
	p.check()
	p.typed("exit 3")
	p.keys("Enter")
	p.sees("exit code 3")
}

// What changes is shown by itself; a lost connection is shown, and the page goes
// on when the agent is back.
func testLost(t *testing.T, c *cluster, b *browser) {
	p := b.tab(t, c.addr, desktopLight)
	p.open("/jobs?q=later")
	p.sees("No job matches", "Live")
	c.run("later", strings.ReplaceAll(webJob, "web", "later-one"))
	p.sees("later-one", "running")
	_ = c.agent.Signal(syscall.SIGKILL)
	<-c.agent.Done()
	p.sees("Connection lost", "The connection to the agent is lost")
	p.picture("story-lost")
	c.start()
	p.sees("Live")
	p.gone("The connection to the agent is lost")
	c.run("later2", strings.ReplaceAll(nightlyJob, "nightly", "later-two"))
	p.sees("later-two")
}

// ask calls the API with a token.
func (c *cluster) ask(method, path, token, body string) string {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.addr+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-Nomad-Token", token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		c.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return string(text)
}

// With access control a token is needed, and the pages offer what it allows. The
// token is in no storage and no cookie.
func TestSigningIn(t *testing.T) {
	c := newCluster(t, "acl {\n  enabled = true\n}")
	root := field(c.ask("PUT", "/v1/acl/bootstrap", "", ""), "SecretID")
	c.ask("PUT", "/v1/acl/policy/reader", root, `{"Name": "reader", "Rules": "namespace \"default\" { policy = \"read\" }"}`)
	reader := field(c.ask("PUT", "/v1/acl/token", root, `{"Name": "ann", "Type": "client", "Policies": ["reader"]}`), "SecretID")
	c.token = root
	c.run("web", webJob)
	once := field(c.ask("PUT", "/v1/acl/token/onetime", root, "{}"), "OneTimeSecretID")

	b := newBrowser(t)
	p := b.tab(t, c.addr, desktopLight)
	p.open("/")
	p.sees("you are not signed in")
	p.press("Sign in")
	p.fill("input[type=password]", "wrong")
	p.keys("Enter")
	p.sees("not valid")
	p.fill("input[type=password]", reader)
	p.keys("Enter")
	p.sees("ann", "job runs")
	p.press("Jobs")
	p.sees("web")
	p.press("web")
	p.sees("front", "Stop…")
	var stored, stop string
	p.eval(`JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])`, &stored)
	if strings.Contains(stored, reader) {
		t.Errorf("the token is stored: %s", stored)
	}
	p.eval(`[...document.querySelectorAll('button')].find((b) => b.innerText.startsWith('Stop')).title`, &stop)
	if !strings.Contains(stop, "lacks submit-job") {
		t.Errorf("the button to stop says %q", stop)
	}
	p.gone("Nodes")
	p.picture("story-reader")
	// Another tab of the same agent borrows the token.
	beside := b.beside(t, c.addr, p.profile)
	beside.open("/")
	beside.sees("ann")

	// A one-time token signs in, once, and leaves the address.
	p = b.tab(t, c.addr, desktopLight)
	p.open("/#ott=" + once)
	p.sees("Bootstrap Token", "Nodes")
	var at string
	p.eval(`location.href`, &at)
	if strings.Contains(at, once) {
		t.Errorf("the one-time token is still in the address: %s", at)
	}
	p = b.tab(t, c.addr, desktopLight)
	p.open("/settings#ott=" + once)
	p.sees("The one-time token is not valid")
}
