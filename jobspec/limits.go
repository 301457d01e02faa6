package jobspec

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth"
)

// Limits of one parse. Real job files stay far below them; a hostile one costs
// at most about a second and some tens of MiB.
const (
	MaxText   = 1 << 20 // bytes of a job file, of a variable file, and of all -var values together
	MaxBlocks = 10_000  // generated blocks included

	maxSigns   = 150_000     // words and punctuation marks in a text; each costs the parser about 100 bytes
	maxDepth   = 1000        // open operators and brackets; each is a stack frame of the parser
	maxNumber  = 64          // digits in a number
	maxPieces  = 200_000_000 // sum of the squares of the pieces of each text: the parser joins n pieces in n² moves
	maxVars    = 10_000      // values from outside the job file
	maxSteps   = 300_000     // each is about a microsecond
	maxBuilt   = 200_000     // elements of all values that expressions produce
	maxBytes   = 16 << 20    // bytes of all texts that expressions produce or read
	maxElems   = 100_000     // elements of one value
	maxValue   = 4 << 20     // bytes of one value
	maxExp     = 4096        // binary exponent of a number; a larger one prints as thousands of digits
	maxPattern = 1000        // bytes of a regexp
)

// checkSize returns TooLarge for a file of more than MaxText bytes, and
// Invalid, with line and column, for one that is not UTF-8.
func checkSize(f File) error {
	if len(f.Text) > MaxText {
		return berth.Errorf(berth.TooLarge, "%s: at most %d bytes are allowed", f.Name, MaxText)
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

// parseBody checks and parses HCL. It reports whether there is a body; after a
// syntax error there is none.
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
		// After the first error of syntax the parser only guesses: one missing
		// quote makes it report every later line.
		ps.diags(first(diags), "")
		return nil, false
	}
	return file.Body.(*hclsyntax.Body), true
}

// first returns the error that comes first in the text.
func first(diags hcl.Diagnostics) hcl.Diagnostics {
	var out *hcl.Diagnostic
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Subject != nil && (out == nil || d.Subject.Start.Byte < out.Subject.Start.Byte) {
			out = d
		}
	}
	if out == nil {
		return diags
	}
	return hcl.Diagnostics{out}
}

// tooCostly finds text that would make the parser itself expensive: its
// recursion has no limit, and a stack overflow ends the process.
func tooCostly(f File) (rng hcl.Range, what string) {
	if n := signs(f.Text); n > maxSigns {
		rng = hcl.Range{Filename: f.Name, Start: hcl.InitialPos, End: hcl.InitialPos}
		return rng, fmt.Sprintf("at most %d words and punctuation marks are allowed, got %d", maxSigns, n)
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

// signs returns an upper bound of the number of tokens, without running the
// lexer.
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

// depth tracks open brackets and the chained operators in each: a+b+c nests as
// deep as ((a)).
type depth struct {
	open   []bracket
	top    bracket // of the body
	total  int     // open brackets and chained operators
	blocks int     // so far
	pieces int     // sum of the squares of the pieces of finished texts
}

// bracket is one open bracket, quote or template.
type bracket struct {
	kind   hclsyntax.TokenType
	chain  int  // operators since the last comma or line
	loop   bool // {for …}: the end of a line does not end its expressions
	pieces int  // of a text: its lines, and more for each % or $
}

// level returns the innermost open bracket, or the top of the file.
func (d *depth) level() *bracket {
	if n := len(d.open); n > 0 {
		return &d.open[n-1]
	}
	return &d.top
}

// next counts token i and returns what is too much, "" if nothing is. It must
// see all tokens in order.
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
			return fmt.Sprintf("the text has too many lines or %% and $ signs, %d so far; read it with the function file instead", b.pieces)
		}
	case hclsyntax.TokenComma:
		d.endChain()
	case hclsyntax.TokenNewline:
		d.endLine(tokens, i)
	case hclsyntax.TokenComment: // a comment to the end of the line includes the newline
		if bytes.HasSuffix(t.Bytes, []byte{'\n'}) {
			d.endLine(tokens, i)
		}
	case hclsyntax.TokenNumberLit:
		if len(t.Bytes) > maxNumber {
			return fmt.Sprintf("a number can have at most %d digits, got %d", maxNumber, len(t.Bytes))
		}
	default:
		if operator(t.Type) {
			return d.chain()
		}
	}
	return ""
}

// push opens a bracket. It returns the fault if that nests too deep or begins
// too many blocks.
func (d *depth) push(tokens hclsyntax.Tokens, i int) string {
	t, prev := tokens[i], before(tokens, i)
	switch t.Type {
	case hclsyntax.TokenOBrace:
		if prev == hclsyntax.TokenIdent || prev == hclsyntax.TokenCQuote {
			if d.blocks++; d.blocks > MaxBlocks {
				return fmt.Sprintf("the file has more than %d blocks", MaxBlocks)
			}
		}
	case hclsyntax.TokenOBrack: // an index nests below what it indexes
		if fault := d.chain(); fault != "" {
			return fault
		}
	case hclsyntax.TokenTemplateControl: // a directive is open until its end directive
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

// chain counts an operator, below which the parser nests the next operand. It
// returns the fault if there are too many.
func (d *depth) chain() string {
	d.level().chain++
	if d.total++; d.total > maxDepth {
		return fmt.Sprintf("the expression has more than %d operators", maxDepth)
	}
	return ""
}

// endLine ends the expressions of a body or object at the end of a line. In other
// brackets they continue.
func (d *depth) endLine(tokens hclsyntax.Tokens, i int) {
	b := d.level()
	if len(d.open) == 0 || b.kind == hclsyntax.TokenOBrace && !b.loop && !operator(before(tokens, i)) {
		d.endChain()
	}
}

// endChain ends the expression at the current level: what follows nests no
// deeper than before it.
func (d *depth) endChain() {
	b := d.level()
	d.total -= b.chain
	b.chain = 0
}

// before returns the type of the token before i, ignoring newlines and comments.
func before(tokens hclsyntax.Tokens, i int) hclsyntax.TokenType {
	for i--; i >= 0; i-- {
		if t := tokens[i].Type; t != hclsyntax.TokenNewline && t != hclsyntax.TokenComment {
			return t
		}
	}
	return hclsyntax.TokenNil
}

// word returns the identifier at i, ignoring newlines and comments, or "".
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

// operator reports whether the token makes the expression tree one level
// deeper.
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
