package expr

import "slices"

// parser builds the tree of an expression by recursive descent. depth limits
// its recursion.
type parser struct {
	lexer
	tok   token // the next one
	depth int
}

// advance reads the next token into p.tok.
func (p *parser) advance() (err error) {
	p.tok, err = p.next()
	return err
}

// whole parses the text to its end.
func (p *parser) whole() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.binary(0)
	if err == nil && p.tok.kind != end {
		err = p.fail(p.tok.at, "expected an operator, got %s", p.tok)
	}
	return n, err
}

// levels are the binary operators, weakest first.
var levels = [][]string{{"||"}, {"&&"}, {"in"}, {"==", "!="}, {"<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}}

// is reports whether the current token is one of the operators.
func (p *parser) is(ops ...string) bool {
	return p.tok.kind == operator && slices.Contains(ops, p.tok.text)
}

// binary parses operators of this level and of those that bind tighter.
// Operators of one level group to the left.
func (p *parser) binary(level int) (node, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	for err == nil && p.is(levels[level]...) {
		op := p.tok.text
		if err = p.advance(); err != nil {
			break
		}
		var right node
		if right, err = p.binary(level + 1); err == nil {
			left = &binary{op, left, right}
		}
	}
	return left, err
}

// nested counts the nesting depth, so that no text can exhaust the stack.
func (p *parser) nested(read func() (node, error)) (node, error) {
	if p.depth++; p.depth > MaxDepth {
		return nil, p.fail(p.tok.at, "nested deeper than %d levels", MaxDepth)
	}
	n, err := read()
	p.depth--
	return n, err
}

// unary parses ! and -, which bind tighter than any binary operator.
func (p *parser) unary() (node, error) {
	if op := p.tok.text; p.is("!", "-") {
		if err := p.advance(); err != nil {
			return nil, err
		}
		of, err := p.nested(p.unary)
		return &unary{op, of}, err
	}
	return p.index()
}

// index parses a value and any number of [i] behind it.
func (p *parser) index() (node, error) {
	n, err := p.primary()
	for err == nil && p.is("[") {
		if err = p.advance(); err != nil {
			break
		}
		var at node
		if at, err = p.nested(func() (node, error) { return p.binary(0) }); err == nil {
			n, err = &index{n, at}, p.expect("]")
		}
	}
	return n, err
}

// expect skips the operator op; anything else is an error.
func (p *parser) expect(op string) error {
	if !p.is(op) {
		return p.fail(p.tok.at, "expected %q, got %s", op, p.tok)
	}
	return p.advance()
}

// types are the targets of casts.
var types = []string{"boolean", "int64", "float64", "rstring"}

// primary parses a literal, a list, a group in parentheses, a property or a
// call of hash, the only function.
func (p *parser) primary() (node, error) {
	t := p.tok
	switch {
	case t.kind == literal:
		return &constant{t.value}, p.advance()
	case p.is("["):
		return p.nested(p.list)
	case p.is("("):
		return p.nested(p.group)
	case t.kind == name:
		if err := p.advance(); err != nil {
			return nil, err
		}
		if !p.is("(") {
			return &property{t.text}, nil
		}
		if t.text != "hash" {
			return nil, p.fail(t.at, "unknown function %q: want hash", t.text)
		}
		return p.nested(func() (node, error) {
			of, err := p.parenthesised()
			return &hash{of}, err
		})
	}
	return nil, p.fail(t.at, "expected a value, got %s", t)
}

// parenthesised reads what is inside the parentheses that begin here.
func (p *parser) parenthesised() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.binary(0)
	if err == nil {
		err = p.expect(")")
	}
	return n, err
}

// group reads parentheses, which may be a cast.
func (p *parser) group() (node, error) {
	before := p.lexer
	if err := p.advance(); err != nil {
		return nil, err
	}
	if to := p.tok; to.kind == name && slices.Contains(types, to.text) {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.is(")") {
			if err := p.advance(); err != nil {
				return nil, err
			}
			of, err := p.nested(p.unary)
			return &cast{to.text, of}, err
		}
	}
	p.lexer = before
	return p.parenthesised()
}

// list parses a list from its opening bracket on. A comma behind the last
// element is allowed.
func (p *parser) list() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	l := &list{}
	for !p.is("]") {
		n, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		l.of = append(l.of, n)
		if !p.is(",") {
			break
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	return l, p.expect("]")
}
