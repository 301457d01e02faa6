// Package redact removes from JSON what could be a secret, so that it can be
// given to people who look for a defect. It keeps the shape: names of fields,
// numbers, states and IDs stay, so the text still tells what happened. It errs on
// the side of removing too much: below the names of Blocks every text goes,
// because users put secrets there.
package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Mark stands for a text that was removed.
const Mark = "<redacted>"

// Blocks are names of fields below which every text is removed: users choose
// what is in them.
var Blocks = []string{
	"Env", "Meta", "Config", "Args", "Command", "Payload", "Templates", "Artifacts", "Items", "Variables", "VariableFlags", "Source", "Submission", "Environment", "Details",
	"EmbeddedTmpl", "HCL", "Header", "GetterHeaders", "GetterOptions", "Secrets", "DriverConfig", "Options", "Parameters", "Actions",
	"Template", "Body", "Message", "Description", "Checks",
}

// secretWords are in the names of fields whose text is removed.
var secretWords = []string{"secret", "token", "password", "passwd", "credential", "privatekey", "apikey", "authorization", "encrypt", "passphrase", "wrapped", "sealed"}

// harmless are names that look like those of secrets and have none.
var harmless = map[string]bool{
	"accessorid": true, "nexttoken": true, "tokenlocality": true, "tokennameformat": true, "maxtokenttl": true, "tokenminexpirationttl": true,
	"tokenmaxexpirationttl": true, "secretsmb": true, "tokenttl": true, "secretsfingerprint": true,
}

// JSON returns a JSON text without what could be a secret. also are texts that
// are removed wherever they stand, such as the caller's own token. A text that is
// not JSON is removed as a whole.
func JSON(text []byte, also ...string) []byte {
	var v any
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return []byte(`"` + Mark + `"`)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value(v, false, also)); err != nil {
		return []byte(`"` + Mark + `"`)
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

// Removed returns the texts that JSON removes from a JSON text, if they are long
// enough to be told from ordinary words. They can stand in messages as well.
func Removed(text []byte) (out []string) {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return nil
	}
	var walk func(v any, all bool)
	walk = func(v any, all bool) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(x, all || isBlock(k) || isSecret(k))
			}
		case []any:
			for _, x := range v {
				walk(x, all)
			}
		case string:
			if all && len(v) >= leastRemoved {
				out = append(out, v)
			}
		}
	}
	walk(v, false)
	return out
}

// Messages returns a JSON text in which every text of several words has been
// through a replacer. Names, states and IDs are single words and stay.
func Messages(text []byte, r *strings.Replacer) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return text
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				v[k] = walk(x)
			}
		case []any:
			for i, x := range v {
				v[i] = walk(x)
			}
		case string:
			if strings.ContainsRune(v, ' ') {
				return r.Replace(v)
			}
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		return text
	}
	return out
}

// leastRemoved is the length from which on Removed returns a text, in bytes.
const leastRemoved = 6

// Text returns a text, such as a log, without the given secrets, and without
// what follows the name of a secret and a colon or an equals sign.
func Text(s string, also ...string) string {
	for _, x := range also {
		if x != "" {
			s = strings.ReplaceAll(s, x, Mark)
		}
	}
	lines := strings.SplitAfter(s, "\n")
	for i, line := range lines {
		lines[i] = inLine(line)
	}
	return strings.Join(lines, "")
}

// inLine removes the values of names in a line of text: secret_id=… and
// "token": "…".
func inLine(line string) string {
	var b strings.Builder
	for rest := line; ; {
		at := strings.IndexAny(rest, "=:")
		if at < 0 {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(rest[:at+1])
		name := rest[:at]
		if cut := strings.LastIndexAny(strings.TrimRight(name, `" `), " \t,{(\""); cut >= 0 {
			name = name[cut+1:]
		}
		rest = rest[at+1:]
		if !isSecret(strings.Trim(name, `"' `)) {
			continue
		}
		blank := len(rest) - len(strings.TrimLeft(rest, " "))
		b.WriteString(rest[:blank])
		rest = rest[blank:]
		end := strings.IndexAny(rest, " \t\n,})")
		if strings.HasPrefix(rest, `"`) {
			if close := strings.IndexByte(rest[1:], '"'); close >= 0 {
				end = close + 2
			}
		}
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			b.WriteString(Mark)
		}
		rest = rest[end:]
	}
}

// value redacts a value. all means that every text in it goes.
func value(v any, all bool, also []string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			name := k
			if all {
				name = key(k, also)
			}
			if s, ok := x.(string); ok && s != "" && isSecret(k) {
				out[name] = Mark
				continue
			}
			out[name] = value(x, all || isBlock(k) || isSecret(k), also)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = value(x, all, also)
		}
		return out
	case string:
		if all && v != "" {
			return Mark
		}
		return Text(v, also...)
	case json.Number:
		if all {
			return json.Number("0")
		}
	}
	return v
}

// key returns the name of a field of a block, without secrets of the caller.
func key(k string, also []string) string {
	for _, x := range also {
		if x != "" {
			k = strings.ReplaceAll(k, x, Mark)
		}
	}
	return k
}

// isBlock reports whether everything below a name goes.
func isBlock(name string) bool {
	for _, b := range Blocks {
		if strings.EqualFold(b, name) {
			return true
		}
	}
	return false
}

// isSecret reports whether the text of a name goes.
func isSecret(name string) bool {
	name = strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(name))
	if harmless[name] {
		return false
	}
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}
