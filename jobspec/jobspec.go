package jobspec

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"

	"berth/internal/admit"
	"berth/internal/decode"

	"github.com/hashicorp/hcl/v2"

	"berth"
)

// File is the text of a job file or variable file, and its name in errors.
type File struct {
	Name string // for positions of problems; it need not exist
	Text []byte
}

// Options has the inputs of a job file. The zero value, without variables and
// files, is what a server uses for untrusted callers.
type Options struct {
	// Values of variables. VarFiles override Env and Vars override both; in each
	// list, the last value wins.

	Env      []string // KEY=value; NOMAD_VAR_name and BERTH_VAR_name are used
	VarFiles []File   // name = value lines in HCL, or one JSON object
	Vars     []string // name=value

	// Strict makes it an error if VarFiles or Vars set a variable that the job
	// does not declare. Env may always do so.
	Strict bool

	// Files is what file functions may read, with names relative to its root.
	// With nil these functions are refused. [LocalFiles] reads any file.
	Files fs.FS

	// Part accepts a job without groups, which cannot be registered.
	Part bool
}

// Parse reads a job file into a complete, valid job. The text is JSON if it
// begins with a brace, {"Job": {…}} or the job itself, else HCL2.
//
// An error of kind Invalid holds [berth.Problems] with all problems; kind
// TooLarge means that the text is longer than [MaxText]. Parsing stops when ctx
// ends.
func Parse(ctx context.Context, file File, o Options) (job *berth.Job, err error) {
	doc := &document{}
	err = doc.look(file.Name, func() error {
		if err := doc.read(ctx, file, o); err != nil {
			return err
		}
		check := admit.DecodeJobContext
		if o.Part {
			check = admit.DecodePart
		}
		job, err = check(ctx, doc.tree, doc.source)
		if ctx.Err() != nil {
			return exhausted{what: cancelled, cause: context.Cause(ctx)}.err()
		}
		doc.problems.adopt(err, file.Name, doc.place)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return job, nil
}

// ParseTree parses a job file without defaults and validation. It returns the
// tree that [admit.DecodeJob] takes, with only the fields that the file sets.
func ParseTree(ctx context.Context, file File, o Options) (decode.Tree, error) {
	doc := &document{}
	if err := doc.look(file.Name, func() error { return doc.read(ctx, file, o) }); err != nil {
		return nil, err
	}
	return doc.tree, nil
}

// document is a file that is being parsed, with the problems found so far.
type document struct {
	tree     decode.Tree  // the job in the API's form
	source   admit.Source // how strictly types are read
	place    *place       // of the job; nil for JSON
	problems problems
}

// look runs part and returns its error, the limit that it exceeded, or the
// problems that it noted. It turns a panic of a library on unexpected text into
// an error without a kind, so that it cannot end a server.
func (d *document) look(name string, part func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exhausted:
			err = r.err()
		case enough:
			err = d.problems.err()
		default:
			err = fmt.Errorf("%s: the parser failed: %v", name, r)
		}
	}()
	if err := part(); err != nil {
		return err
	}
	return d.problems.err()
}

// read parses the file. It returns an error only if there is no tree.
func (d *document) read(ctx context.Context, file File, o Options) error {
	if err := checkSize(file); err != nil {
		return err
	}
	if isJSON(file.Text) {
		return d.readJSON(ctx, file, o)
	}
	return d.readHCL(&meter{ctx: ctx}, file, o)
}

// isJSON reports whether the text starts with a brace, after a byte order mark
// and white space. No job file in HCL can.
func isJSON(text []byte) bool {
	rest := bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\ufeff")), " \t\r\n")
	return len(rest) > 0 && rest[0] == '{'
}

// readJSON reads a job in the API's form, with or without the outer "Job". The
// error is for text that is not JSON; other faults become problems. With
// o.Strict, variables are a problem too, as JSON has none.
func (d *document) readJSON(ctx context.Context, file File, o Options) error {
	tree, err := decode.ParseJSONContext(ctx, bytes.TrimPrefix(file.Text, []byte("\ufeff")))
	if err != nil {
		return berth.Errorf(berth.Invalid, "%s: %w", file.Name, err)
	}
	d.tree, d.source = tree, admit.FromJSON
	// The API accepts the job itself or an object with the key Job.
	for _, key := range keys(tree) {
		inner, is := tree[key].(decode.Tree)
		if !is || !strings.EqualFold(key, "Job") {
			continue
		}
		d.tree = inner
		for _, other := range keys(tree) {
			if other != key {
				d.problems.addf(file.Name, berth.Clip(other, 64), "is not allowed beside the job")
			}
		}
		break
	}
	// Without Strict, variables may be meant for other job files.
	if !o.Strict {
		return nil
	}
	for _, given := range o.Vars {
		name, _, _ := strings.Cut(given, "=")
		d.problems.addf("-var "+berth.Clip(name, 64), "", "a job file in JSON cannot have variables")
	}
	for _, f := range o.VarFiles {
		d.problems.addf(f.Name, "", "a job file in JSON cannot have variables")
	}
	return nil
}

// readHCL evaluates a job file in HCL into d.tree. It returns an error if no
// job could be found; other faults become problems of d. The meter ends it by a
// panic, which the caller recovers.
func (d *document) readHCL(m *meter, file File, o Options) error {
	d.source = admit.FromHCL
	body, ok := parseBody(file, &d.problems)
	if !ok {
		return d.problems.err()
	}
	m.check() // the parser of the library cannot be stopped
	top := sortTop(body, file, &d.problems)
	s := newScope(m, &d.problems, o.Files)
	s.declare(top)
	s.give(o)
	ctx := s.resolve()
	if top.job == nil {
		return d.problems.err()
	}
	s.prepareBody(top.job.Body, "job", nil)
	d.tree, d.place = (&walker{s}).job(top.job, ctx)
	return nil
}

// rangeText returns a range as shown in errors: file:line,column-column.
func rangeText(r hcl.Range) string { return r.String() }
