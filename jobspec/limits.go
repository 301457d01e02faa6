package jobspec

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth"
)

// Limits of one parse. A job file that people write stays far below them; with
// them a hostile one costs about a second and some tens of MiB at most.
const (
	MaxText   = 1 << 20 // bytes of a job file, of a variable file, and of all -var values together
	MaxBlocks = 10_000  // those of dynamic blocks included

	maxSigns   = 150_000     // words and signs of a text, each of which costs the parser about 100 bytes
	maxDepth   = 1000        // operators and brackets that wait for their end: each is a stack frame of the parser
	maxNumber  = 64          // digits of a number
	maxPieces  = 200_000_000 // squares of the pieces of texts, summed: the parser puts n pieces together in n² moves
	maxVars    = 10_000      // values given from outside
	maxSteps   = 300_000     // each is about a microsecond
	maxBuilt   = 200_000     // elements of all values that expressions build
	maxBytes   = 16 << 20    // of all texts that expressions build or read
	maxElems   = 100_000     // elements of one value
	maxValue   = 4 << 20     // bytes of one value
	maxExp     = 4096        // binary exponent of a number: more would print as a text of thousands of digits
	maxPattern = 1000        // bytes of a regexp
)

func checkSize(f File) error {
	if len(f.Text) > MaxText {
		return berth.Errorf(berth.TooLarge, "%s: more than %d bytes; that many are allowed", f.Name, MaxText)
	}
	if !utf8.Valid(f.Text) {
		good := f.Text
		for i := 0; i < len(f.Text); {
			r, n := utf8.DecodeRune(f.Text[i:])
			if r == utf8.RuneError && n == 1 {
				good = f.Text[:i]
				break
			}
			i += n
		}
		line := bytes.Count(good, []byte{'\n'}) + 1
		col := utf8.RuneCount(good[bytes.LastIndexByte(good, '\n')+1:]) + 1
		return berth.Errorf(berth.Invalid, "%s:%d,%d: byte 0x%02x is not UTF-8 text", f.Name, line, col, f.Text[len(good)])
	}
	return nil
}

// parseBody checks and parses HCL. It reports whether there is a body to go on
// with: after a fault of syntax the rest is guesswork.
func parseBody(f File, ps *problems) (*hclsyntax.Body, bool) {
	if err := checkSize(f); err != nil {
		ps.addf("", "", "%v", err)
		return nil, false
	}
	if rng, what := tooCostly(f); what != "" {
		ps.add(rng, "", what)
		return nil, false
	}
	file, diags := hclsyntax.ParseConfig(f.Text, f.Name, hcl.InitialPos)
	if diags.HasErrors() {
		ps.diags(diags, "")
		return nil, false
	}
	return file.Body.(*hclsyntax.Body), true
}

// tooCostly finds what would make the parser itself expensive: it recurses
// without a bound of its own, and a Go stack that overflows ends the process.
func tooCostly(f File) (rng hcl.Range, what string) {
	if n := signs(f.Text); n > maxSigns {
		rng = hcl.Range{Filename: f.Name, Start: hcl.InitialPos, End: hcl.InitialPos}
		return rng, fmt.Sprintf("the text has %d words and signs; allowed are %d", n, maxSigns)
	}
	tokens, _ := hclsyntax.LexConfig(f.Text, f.Name, hcl.InitialPos) // the parser reports the faults
	d := depth{}
	for i := range tokens {
		if what := d.next(tokens, i); what != "" {
			return tokens[i].Range, what
		}
	}
	return rng, ""
}

// signs counts at least as many tokens as the lexer will make, without making
// them.
func signs(text []byte) (n int) {
	inWord := false
	for _, c := range text {
		word := c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		switch {
		case word && inWord, c == ' ', c == '\t', c == '\r':
		default:
			n++
		}
		inWord = word
	}
	return n
}

// depth follows the brackets of a text and, within each, the operators that
// chain up: a+b+c parses as deep as ((a)).
type depth struct {
	open   []bracket
	top    bracket // of the body
	total  int     // brackets and chains that are open
	blocks int
	pieces int // of texts that ended, squared and summed
}

type bracket struct {
	kind   hclsyntax.TokenType
	chain  int
	loop   bool // {for …}: lines do not end its expressions
	pieces int  // of a text: its lines, and more where it has % or $
}

func (d *depth) level() *bracket {
	if n := len(d.open); n > 0 {
		return &d.open[n-1]
	}
	return &d.top
}

func (d *depth) next(tokens hclsyntax.Tokens, i int) (fault string) {
	t := tokens[i]
	switch t.Type {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
		hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		return d.push(tokens, i)
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc,
		hclsyntax.TokenTemplateSeqEnd:
		if n := len(d.open); n > 0 {
			d.total -= 1 + d.open[n-1].chain
			d.pieces += d.open[n-1].pieces * d.open[n-1].pieces
			d.open = d.open[:n-1]
		}
	case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenQuotedNewline:
		b := d.level()
		if b.pieces++; d.pieces+b.pieces*b.pieces > maxPieces {
			return fmt.Sprintf("the text has too many lines, or %% and $ signs, at %d of them; the function file can read it instead", b.pieces)
		}
	case hclsyntax.TokenComma:
		d.endChain()
	case hclsyntax.TokenNewline:
		d.endLine(tokens, i)
	case hclsyntax.TokenComment: // one to the end of its line swallows the newline
		if bytes.HasSuffix(t.Bytes, []byte{'\n'}) {
			d.endLine(tokens, i)
		}
	case hclsyntax.TokenNumberLit:
		if len(t.Bytes) > maxNumber {
			return fmt.Sprintf("a number of %d digits is too long; allowed are %d", len(t.Bytes), maxNumber)
		}
	default:
		if operator(t.Type) {
			return d.chain()
		}
	}
	return ""
}

func (d *depth) push(tokens hclsyntax.Tokens, i int) string {
	t, prev := tokens[i], before(tokens, i)
	switch t.Type {
	case hclsyntax.TokenOBrace:
		if prev == hclsyntax.TokenIdent || prev == hclsyntax.TokenCQuote {
			if d.blocks++; d.blocks > MaxBlocks {
				return fmt.Sprintf("the file has more than %d blocks", MaxBlocks)
			}
		}
	case hclsyntax.TokenOBrack: // an index hangs below what it indexes
		if fault := d.chain(); fault != "" {
			return fault
		}
	case hclsyntax.TokenTemplateControl: // a directive is open until its end
		switch word(tokens, i+1) {
		case "if", "for":
			if fault := d.chain(); fault != "" {
				return fault
			}
		case "endif", "endfor":
			if b := d.level(); b.chain > 0 {
				b.chain--
				d.total--
			}
		}
	}
	d.open = append(d.open, bracket{kind: t.Type, loop: word(tokens, i+1) == "for"})
	if len(d.open) > berth.MaxNesting {
		return fmt.Sprintf("nested deeper than %d", berth.MaxNesting)
	}
	d.total++
	return ""
}

func (d *depth) chain() string {
	d.level().chain++
	if d.total++; d.total > maxDepth {
		return fmt.Sprintf("the expression has more than %d operators", maxDepth)
	}
	return ""
}

// endLine ends the expressions of a body or an object at the end of a line.
// Within other brackets they go on.
func (d *depth) endLine(tokens hclsyntax.Tokens, i int) {
	b := d.level()
	if len(d.open) == 0 || b.kind == hclsyntax.TokenOBrace && !b.loop && !operator(before(tokens, i)) {
		d.endChain()
	}
}

func (d *depth) endChain() {
	b := d.level()
	d.total -= b.chain
	b.chain = 0
}

// before returns the type of the token before i, lines and comments aside.
func before(tokens hclsyntax.Tokens, i int) hclsyntax.TokenType {
	for i--; i >= 0; i-- {
		if t := tokens[i].Type; t != hclsyntax.TokenNewline && t != hclsyntax.TokenComment {
			return t
		}
	}
	return hclsyntax.TokenNil
}

// word returns the identifier at i or after the lines and comments there.
func word(tokens hclsyntax.Tokens, i int) string {
	for ; i < len(tokens); i++ {
		switch tokens[i].Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
		case hclsyntax.TokenIdent:
			return string(tokens[i].Bytes)
		default:
			return ""
		}
	}
	return ""
}

func operator(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenPercent,
		hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
		hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr,
		hclsyntax.TokenBang, hclsyntax.TokenQuestion, hclsyntax.TokenDot:
		return true
	}
	return false
}
