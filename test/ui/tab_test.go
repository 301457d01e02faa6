package ui

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/eventually"
	"berth/test/bed"
)

// patience ends a test that hangs. Nothing takes that long, however busy the
// machine is.
const patience = eventually.Limit

// look is how a page is looked at.
type look struct {
	name          string
	width, height int
	dark, phone   bool
}

var (
	desktopLight = look{name: "desktop-light", width: 1280, height: 850}
	desktopDark  = look{name: "desktop-dark", width: 1280, height: 850, dark: true}
	zoomedLight  = look{name: "zoomed-light", width: 640, height: 425} // the desktop at 200 %
	phoneLight   = look{name: "phone-light", width: 390, height: 800, phone: true}
	phoneDark    = look{name: "phone-dark", width: 390, height: 800, phone: true, dark: true}
)

// tab is a page in a browser. Its methods fail the test. All waits are for what
// the page shows; eventually.Limit only ends a test that hangs.
type tab struct {
	t       *testing.T
	b       *browser
	base    string
	session string
	profile string // its name in the browser: storage and channels of its own

	troubles []string // guarded by b.mu
}

// tab opens a tab with a new, empty profile. Everything that a page complains
// about fails the test: errors of scripts, dialogs, and what the policy of the
// page forbids.
func (b *browser) tab(t *testing.T, base string, l look) *tab {
	t.Helper()
	p := b.beside(t, base, "")
	p.looks(l)
	return p
}

// beside opens a tab in a profile that another one may have.
func (b *browser) beside(t *testing.T, base, profile string) *tab {
	t.Helper()
	p := &tab{t: t, b: b, base: base, profile: profile}
	if profile == "" {
		var made struct{ BrowserContextID string }
		p.must("Target.createBrowserContext", map[string]any{}, &made)
		p.profile = made.BrowserContextID
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := b.call(ctx, "", "Target.disposeBrowserContext", map[string]any{"browserContextId": p.profile}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	var target struct{ TargetID string }
	p.must("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": p.profile}, &target)
	var attached struct{ SessionID string }
	p.must("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.mu.Lock()
	b.tabs[attached.SessionID] = p
	b.mu.Unlock()
	p.session = attached.SessionID
	for _, m := range []string{"Page.enable", "Runtime.enable", "Log.enable"} {
		p.must(m, nil, nil)
	}
	p.must("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range p.troubles {
			t.Error(s)
		}
	})
	return p
}

// must calls a method of the protocol.
func (p *tab) must(method string, params, into any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.b.call(ctx, p.session, method, params, into); err != nil {
		p.t.Fatal(err)
	}
}

// event keeps what the page complains about. b.mu is held.
func (p *tab) event(r reply) {
	var e struct {
		Message          string
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Entry struct{ Source, Text, URL string }
	}
	_ = json.Unmarshal(r.Params, &e)
	switch r.Method {
	case "Runtime.exceptionThrown":
		p.troubles = append(p.troubles, fmt.Sprintf("a script failed: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description))
	case "Page.javascriptDialogOpening":
		p.troubles = append(p.troubles, "a page opened a dialog: "+e.Message)
		go p.b.send(p.session, "Page.handleJavaScriptDialog", map[string]any{"accept": true})
	case "Inspector.targetCrashed":
		p.troubles = append(p.troubles, "the page crashed")
	case "Log.entryAdded":
		if e.Entry.Source == "security" || strings.Contains(e.Entry.Text, "Content Security Policy") {
			p.troubles = append(p.troubles, fmt.Sprintf("the browser refused something: %s %s", e.Entry.Text, e.Entry.URL))
		}
	}
}

// looks changes how the page is looked at.
func (p *tab) looks(l look) {
	p.t.Helper()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	p.must("Emulation.setDeviceMetricsOverride", map[string]any{"width": l.width, "height": l.height, "deviceScaleFactor": 1, "mobile": l.phone}, nil)
	p.must("Emulation.setEmulatedMedia", map[string]any{"features": []any{
		map[string]any{"name": "prefers-color-scheme", "value": scheme}, map[string]any{"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
}

// open loads a path of the UI.
func (p *tab) open(path string) {
	p.t.Helper()
	p.eval(`window.earlier = true`, nil)
	var to struct{ ErrorText string }
	p.must("Page.navigate", map[string]any{"url": p.base + "/ui" + path}, &to)
	if to.ErrorText != "" {
		p.t.Fatalf("open %s: %s", path, to.ErrorText)
	}
	p.becomes("the page is loaded", `!window.earlier && document.readyState === 'complete'`)
}

// before runs a script in each page that the tab loads from now on, before those of
// the page.
func (p *tab) before(script string) {
	p.t.Helper()
	p.must("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script}, nil)
}

// evaluate returns the value of an expression; a promise is awaited.
func (p *tab) evaluate(expression string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	params := map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}
	if err := p.b.call(ctx, p.session, "Runtime.evaluate", params, &r); err != nil {
		return err
	}
	if e := r.ExceptionDetails; e != nil {
		return fmt.Errorf("%s %s", e.Text, e.Exception.Description)
	}
	if into == nil || r.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(r.Result.Value, into)
}

func (p *tab) eval(expression string, into any) {
	p.t.Helper()
	if err := p.evaluate(expression, into); err != nil {
		p.t.Fatal(err)
	}
}

// becomes waits until an expression is true.
func (p *tab) becomes(what, expression string) {
	p.t.Helper()
	p.keysUntil(what, expression)
}

// text is what the page shows.
func (p *tab) text() (text string) {
	_ = p.evaluate(`location.href + "\n" + document.body?.innerText`, &text)
	return text
}

// sees waits until the page shows all texts.
func (p *tab) sees(texts ...string) {
	p.t.Helper()
	for _, s := range texts {
		p.becomes(fmt.Sprintf("the page shows %q", s), fmt.Sprintf(`!!document.body && document.body.innerText.includes(%s)`, quoted(s)))
	}
}

// gone waits until the page does not show a text any more.
func (p *tab) gone(text string) {
	p.t.Helper()
	p.becomes(fmt.Sprintf("the page does not show %q", text), fmt.Sprintf(`!!document.body && !document.body.innerText.includes(%s)`, quoted(text)))
}

// has waits until an element is there.
func (p *tab) has(selector string) {
	p.t.Helper()
	p.becomes("there is "+selector, fmt.Sprintf(`!!document.querySelector(%s)`, quoted(selector)))
}

// press clicks the first button or link that begins with a text, in the dialog
// if one is open.
func (p *tab) press(text string) {
	p.t.Helper()
	p.becomes(fmt.Sprintf("there is a button %q", text), fmt.Sprintf(`(() => {
		const e = [...(document.querySelector('dialog[open]') ?? document).querySelectorAll('button, a')].find((e) => e.innerText.trim().startsWith(%s) && !e.disabled && e.getAttribute('aria-disabled') !== 'true')
		if (e) e.click()
		return !!e
	})()`, quoted(text)))
}

// fill writes a text into a field, as if it was typed over what was there.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.becomes("there is a field "+selector, fmt.Sprintf(`(() => {
		const e = document.querySelector(%s)
		if (e) { e.focus(); e.select() }
		return !!e && document.activeElement === e
	})()`, quoted(selector)))
	if text == "" {
		p.keys("Delete")
		return
	}
	p.must("Input.insertText", map[string]any{"text": text}, nil)
}

// keyCodes are the keys that have no character.
var keyCodes = map[string]int{"Enter": 13, "Escape": 27, "Delete": 46, "ArrowDown": 40, "Tab": 9}

// keys presses keys one after the other: names of keyCodes, characters, and
// "Ctrl+k".
func (p *tab) keys(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		down := map[string]any{"type": "keyDown", "key": k}
		if rest, ok := strings.CutPrefix(k, "Ctrl+"); ok {
			down["key"], down["modifiers"], down["windowsVirtualKeyCode"] = rest, 2, int(strings.ToUpper(rest)[0])
		} else if code, ok := keyCodes[k]; ok {
			down["windowsVirtualKeyCode"], down["code"] = code, k
			if k == "Enter" {
				down["text"] = "\r"
			}
		} else {
			down["text"] = k
		}
		p.must("Input.dispatchKeyEvent", down, nil)
		up := map[string]any{"type": "keyUp", "key": down["key"]}
		p.must("Input.dispatchKeyEvent", up, nil)
	}
}

// keysUntil presses keys again and again until an expression is true. A page that a
// busy machine holds up may not listen yet, or the second key comes too late for it.
func (p *tab) keysUntil(what, expression string, keys ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := bed.Until(ctx, what, func() string {
		p.keys(keys...)
		var ok bool
		if err := p.evaluate(expression, &ok); err != nil {
			return err.Error()
		}
		if !ok {
			return "not yet"
		}
		return ""
	}); err != nil {
		p.t.Fatalf("%v\nthe page shows:\n%s", err, p.text())
	}
}

// typed presses a key for each character.
func (p *tab) typed(text string) {
	p.t.Helper()
	for _, r := range text {
		p.keys(string(r))
	}
}

// picture writes a screenshot for those who look at the tests.
func (p *tab) picture(name string) {
	p.t.Helper()
	p.shot(filepath.Join(shots, name+".png"), true)
}

// shot writes a screenshot to a file, fast or small.
func (p *tab) shot(file string, fast bool) {
	p.t.Helper()
	var shot struct{ Data string }
	p.must("Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": fast}, &shot)
	image, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, image, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// quoted is a text as JavaScript.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}
