package expr

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is one word, literal or operator of the text.
type token struct {
	kind  tokenKind
	text  string // an operator, or a name
	value any    // of a literal
	at    int    // where it begins
}

// tokenKind is the class of a token.
type tokenKind uint8

const (
	end tokenKind = iota
	operator
	name
	literal
)

// String returns the token as an error message shows it.
func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case literal:
		return show(t.value)
	}
	return fmt.Sprintf("%q", t.text)
}

// lexer splits a text into tokens, one at a time.
type lexer struct {
	text string
	at   int // byte offset of the next token
}

// fail returns an error at a byte offset, as a column counted from 1.
func (l *lexer) fail(at int, format string, args ...any) error {
	return fmt.Errorf("column %d: %s", at+1, fmt.Sprintf(format, args...))
}

// operators lists longer operators before their prefixes.
var operators = []string{"||", "&&", "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "!", "(", ")", "[", "]", ","}

// bitwise are operators of other languages that are not supported.
var bitwise = []string{"<<", ">>", "|", "&", "^", "~"}

// next returns the next token; after the last one it returns end, however often
// it is called.
func (l *lexer) next() (token, error) {
	for l.at < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.at]) >= 0 {
		l.at++
	}
	rest, at := l.text[l.at:], l.at
	if rest == "" {
		return token{kind: end, at: at}, nil
	}
	switch c := rest[0]; {
	case c == '"':
		return l.str()
	// .5 is a number; a point alone is an error below.
	case digit(c) || c == '.' && len(rest) > 1 && digit(rest[1]):
		return l.number()
	case letter(c):
		n := 1
		for n < len(rest) && (letter(rest[n]) || digit(rest[n])) {
			n++
		}
		l.at += n
		switch word := rest[:n]; word {
		case "true", "false":
			return token{kind: literal, value: word == "true", at: at}, nil
		case "in":
			return token{kind: operator, text: word, at: at}, nil
		default:
			return token{kind: name, text: word, at: at}, nil
		}
	}
	if strings.HasPrefix(rest, "<<") || strings.HasPrefix(rest, ">>") {
		return token{}, l.fail(at, "operator %q is not supported: there are no bitwise operators", rest[:2])
	}
	// Longer operators stand first in the list, so that <= is not read as
	// <.
	for _, o := range operators {
		if strings.HasPrefix(rest, o) {
			l.at += len(o)
			return token{kind: operator, text: o, at: at}, nil
		}
	}
	for _, o := range bitwise {
		if strings.HasPrefix(rest, o) {
			return token{}, l.fail(at, "operator %q is not supported: there are no bitwise operators", o)
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return token{}, l.fail(at, "unexpected character %q", r)
}

// digit and letter are ASCII only: names and numbers have no other characters.
func digit(c byte) bool  { return '0' <= c && c <= '9' }
func letter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// number reads a literal up to the first byte that cannot belong to it. A
// letter right behind a number is an error.
func (l *lexer) number() (token, error) {
	at, n, whole := l.at, 0, true
	rest := l.text[at:]
	for n < len(rest) {
		switch c := rest[n]; {
		case digit(c):
		case c == '.', c == 'e', c == 'E':
			whole = false
		case (c == '+' || c == '-') && (rest[n-1] == 'e' || rest[n-1] == 'E'):
		case letter(c):
			return token{}, l.fail(at, "%q is not a number", rest[:n+1])
		default:
			return l.numeral(at, rest[:n], whole)
		}
		n++
	}
	return l.numeral(at, rest, whole)
}

// numeral parses the text of a number: an int64 if whole, else a float64.
func (l *lexer) numeral(at int, text string, whole bool) (t token, err error) {
	t = token{kind: literal, at: at}
	if whole {
		t.value, err = strconv.ParseInt(text, 10, 64)
	} else {
		t.value, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		return t, l.fail(at, "%q is not a 64-bit number", text)
	}
	l.at += len(text)
	return t, nil
}

// str reads a string in double quotes. A backslash escapes a quote or a
// backslash, or begins \n, \r or \t.
func (l *lexer) str() (token, error) {
	at := l.at
	var b strings.Builder
	for i := at + 1; i < len(l.text); i++ {
		switch c := l.text[i]; c {
		case '"':
			l.at = i + 1
			if !utf8.ValidString(b.String()) {
				return token{}, l.fail(at, "the string is not UTF-8")
			}
			return token{kind: literal, value: b.String(), at: at}, nil
		case '\\':
			i++
			if i == len(l.text) {
				return token{}, l.fail(at, "unterminated string")
			}
			k := strings.IndexByte(`"\nrt`, l.text[i])
			if k < 0 {
				return token{}, l.fail(i-1, `unknown escape %q: want \" \\ \n \r or \t`, l.text[i-1:i+1])
			}
			b.WriteByte("\"\\\n\r\t"[k])
		default:
			b.WriteByte(c)
		}
	}
	return token{}, l.fail(at, "unterminated string")
}
