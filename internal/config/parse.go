package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/parser"
	"github.com/hashicorp/hcl/hcl/token"

	"berth"
	"berth/internal/decode"
	"berth/internal/strictjson"
)

// A node is one value of a file. The grammar is HCL version 1, as in Nomad's
// agent configuration: quoted keys, "block { }" and "block = { }" are
// equivalent.
type node struct {
	pos   string // file:line
	value any    // string, bool, int64, float64, []*node or object
}

// object holds values by key. A label is a nested key: plugin "raw_exec" { } is
// an object raw_exec in an object plugin. Repeated blocks of a file are one
// object.
type object map[string]*node

// Limits of one file.
const (
	maxFile    = 1 << 20 // bytes of one file
	maxNesting = 50      // blocks and lists inside each other
)

// reader reads one file. It collects problems and continues where it can.
type reader struct {
	file     string
	problems *berth.Problems
}

// addf notes a problem at a position of the file.
func (r *reader) addf(pos, path, format string, args ...any) {
	*r.problems = append(*r.problems, berth.Problem{Pos: pos, Path: path, Text: fmt.Sprintf(format, args...)})
}

// at returns a line as a position. The first line is 1.
func (r *reader) at(line int) string { return r.file + ":" + strconv.Itoa(max(1, line)) }

// parse reads a file. The format is recognized by content: JSON begins with a
// brace.
func parse(file string, text []byte, problems *berth.Problems) object {
	r := &reader{file, problems}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	switch at, ok := badUTF8(text); {
	case len(text) > maxFile:
		r.addf(file, "", "is too large: %d bytes, at most %d are allowed", len(text), maxFile)
	case !ok:
		r.addf(r.at(lineOf(text, at)), "", "invalid UTF-8: byte 0x%02x", text[at])
	case deep(text):
		r.addf(file, "", "braces and brackets are nested deeper than %d levels", maxNesting)
	case bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")):
		return r.json(text)
	default:
		return r.hcl(text)
	}
	return object{}
}

// badUTF8 returns where the first byte is that is not UTF-8; ok means there is
// none.
func badUTF8(text []byte) (at int, ok bool) {
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && n == 1 {
			return i, false
		}
		i += n
	}
	return 0, true
}

// lineOf returns the line of a byte offset, counted from 1.
func lineOf(text []byte, at int) int {
	return bytes.Count(text[:min(at, len(text))], []byte{'\n'}) + 1
}

// deep reports whether brackets are nested too deeply for the parsers, which
// recurse. Brackets inside strings count too.
func deep(text []byte) bool {
	depth := 0
	for _, c := range text {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth = max(0, depth-1)
		}
		if depth > maxNesting {
			return true
		}
	}
	return false
}

// plainly puts the characters of the file in the place of the names that the
// parser has for them.
var plainly = strings.NewReplacer("RBRACE }", "}", "object expected closing RBRACE got: EOF", "the file ends inside a block: want }",
	"RBRACE", "}", "LBRACE", "{", "RBRACK", "]", "LBRACK", "[", "ASSIGN", "=", "COMMA", ",", "EOF", "the end of the file")

// hcl reads a file in HCL. What it could read before a syntax error is
// returned.
func (r *reader) hcl(text []byte) (out object) {
	out = object{}
	defer func() { // the library panics on some texts that are not HCL
		if p := recover(); p != nil {
			r.addf(r.file, "", "invalid HCL: %v", p)
		}
	}()
	f, err := parser.ParseDontErrorOnDuplicateKeys(text)
	if err != nil {
		pos := r.file
		if e, ok := errors.AsType[*parser.PosError](err); ok {
			pos, err = r.at(e.Pos.Line), e.Err
		}
		r.addf(pos, "", "invalid HCL: %s", plainly.Replace(err.Error()))
		return out
	}
	if list, ok := f.Node.(*ast.ObjectList); ok {
		r.items(out, "", list)
	}
	return out
}

// items puts the keys and blocks of a list into out. A label is one more level:
// host_volume "a" is the key a in host_volume.
func (r *reader) items(out object, path string, list *ast.ObjectList) {
	for _, item := range list.Items {
		to, at := out, path
		for i, k := range item.Keys {
			key, _ := k.Token.Value().(string)
			pos := r.at(k.Token.Pos.Line)
			if key == "" {
				r.addf(pos, at, "empty key")
				break
			}
			// Blocks of one type with different labels share their
			// outer level.
			if i < len(item.Keys)-1 { // what follows is a label
				inner := object{}
				r.put(to, at, key, &node{pos, inner})
				if have, ok := to[key].value.(object); ok {
					inner = have
				}
				to, at = inner, decode.Join(at, key)
				continue
			}
			if n := r.value(decode.Join(at, key), pos, item.Val); n != nil {
				r.put(to, at, key, n)
			}
		}
	}
}

// put sets a key, or merges the value into an existing block.
func (r *reader) put(to object, path, key string, n *node) {
	n = r.fold(decode.Join(path, key), n)
	have := to[key]
	if have == nil {
		to[key] = n
		return
	}
	if first, ok := have.value.([]*node); ok && decode.Join(path, key) == socketBlocks {
		if more, ok := n.value.([]*node); ok {
			have.value = append(first, more...)
			return
		}
	}
	old, isObject := have.value.(object)
	add, also := n.value.(object)
	if !isObject || !also {
		r.addf(n.pos, decode.Join(path, key), "is set twice, first at %s", have.pos)
		return
	}
	for k, inner := range add {
		r.put(old, decode.Join(path, key), k, inner)
	}
}

// fold merges a list of objects into one object: JSON writes repeated blocks as
// a list.
func (r *reader) fold(path string, n *node) *node {
	if _, ok := n.value.(object); ok && path == socketBlocks {
		return &node{n.pos, []*node{n}}
	}
	list, ok := n.value.([]*node)
	if !ok || len(list) == 0 {
		return n
	}
	for _, e := range list {
		if _, ok := e.value.(object); !ok || path == socketBlocks {
			return n
		}
	}
	out := object{}
	for _, e := range list {
		for k, inner := range e.value.(object) {
			r.put(out, path, k, inner)
		}
	}
	return &node{n.pos, out}
}

// value returns a value with its position, nil after a problem.
func (r *reader) value(path, pos string, v ast.Node) *node {
	switch v := v.(type) {
	case *ast.LiteralType:
		return r.literal(path, v.Token)
	case *ast.ListType:
		list := make([]*node, 0, len(v.List))
		for _, e := range v.List {
			if n := r.value(path, pos, e); n != nil {
				list = append(list, n)
			}
		}
		return &node{pos, list}
	case *ast.ObjectType:
		inner := object{}
		r.items(inner, path, v.List)
		return &node{pos, inner}
	}
	r.addf(pos, path, "has no value")
	return nil
}

// literal returns a number, boolean or string, nil after a problem.
func (r *reader) literal(path string, t token.Token) *node {
	pos := r.at(t.Pos.Line)
	var v any
	switch t.Type {
	case token.NUMBER, token.FLOAT:
		v = number(t.Text)
	case token.BOOL, token.STRING, token.HEREDOC:
		v = t.Value()
	}
	if v == nil {
		r.addf(pos, path, "invalid value %.40q", t.Text)
		return nil
	}
	return &node{pos, v}
}

// number parses a number. It returns nil if s is not a number or does not fit.
func number(s string) any {
	if n, err := strconv.ParseInt(s, 0, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f)
	}
	return f
}

// json reads a file in JSON. A text that is not an object gives none.
func (r *reader) json(text []byte) object {
	n, fault := strictjson.ReadOne(text, func(d *strictjson.Decoder) (*node, error) { return r.jsonValue(d, text, "") })
	if fault != nil {
		r.addf(r.at(fault.Line), "", "invalid JSON: %v", fault)
		return object{}
	}
	out, _ := n.value.(object)
	return out
}

// jsonValue reads the next value. It returns nil for null, which is the same as
// an absent key. An error ends the file.
func (r *reader) jsonValue(d *strictjson.Decoder, text []byte, path string) (*node, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &node{pos: r.at(lineOf(text, int(d.InputOffset())))}
	switch t.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		n.value = t.Bool()
	case '"':
		n.value = t.String()
	case '0':
		if n.value = number(t.String()); n.value == nil {
			return nil, fmt.Errorf("the number %.40s is out of range", t)
		}
	case '{':
		o := object{}
		for d.PeekKind() != '}' {
			k, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := k.String()
			v, err := r.jsonValue(d, text, decode.Join(path, key))
			if err != nil {
				return nil, err
			}
			if v != nil { // null is the same as no key
				o[key] = r.fold(decode.Join(path, key), v)
			}
		}
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		n.value = o
	default:
		list := []*node{}
		for d.PeekKind() != ']' {
			v, err := r.jsonValue(d, text, path)
			if err != nil {
				return nil, err
			}
			if v != nil {
				list = append(list, v)
			}
		}
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		n.value = list
	}
	return n, nil
}

// merge merges b into a, as the package comment describes.
func merge(a, b object, path string) {
	for k, n := range b {
		if old := a[k]; old != nil && path != "plugin" {
			was, isObject := old.value.(object)
			is, also := n.value.(object)
			if isObject && also {
				merge(was, is, decode.Join(path, k))
				continue
			}
		}
		a[k] = n
	}
}

// keys returns the keys in order, so that problems come in a fixed order.
func (o object) keys() []string {
	out := make([]string, 0, len(o))
	for k := range o {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
