package explain

import "berth"

// Matching returns the steps of a trace that match, and those that they came
// from. The first error of match ends it.
func Matching(steps []Step, match func(*Step) (bool, error)) ([]Step, error) {
	keep, below := make([]bool, len(steps)), 0 // below: the depth of what is kept and whose parent stands further up
	for i := len(steps) - 1; i >= 0; i-- {
		ok := steps[i].Depth < below
		if !ok {
			var err error
			if ok, err = match(&steps[i]); err != nil {
				return nil, err
			}
		}
		if ok {
			keep[i], below = true, steps[i].Depth
		}
	}
	var out []Step
	for i, s := range steps {
		if keep[i] {
			out = append(out, s)
		}
	}
	return out, nil
}

// Newest returns the last trees of a trace that together have no more steps than
// most, or the beginning of the last tree if that alone has more. If these do not
// have the evaluation of, it returns the tree that has it instead: its beginning
// or, where it stands further down, what it came from and what follows. older and
// later are how many were left out before and behind. most 0 returns all.
func Newest(all []Step, most int, of berth.EvalID) (shown []Step, older, later int) {
	if most <= 0 || len(all) <= most {
		return all, 0, 0
	}
	at := -1
	for i := range all {
		if all[i].Eval.ID == of {
			at = i
		}
	}
	from := len(all)
	for from > 0 {
		root := rootOf(all, from-1)
		if len(all)-root > most {
			break
		}
		from = root
	}
	switch {
	case from < len(all) && (at < 0 || at >= from):
		return all[from:], from, 0
	case at < 0:
		at = rootOf(all, len(all)-1)
	}
	root := rootOf(all, at)
	end := root + 1
	for end < len(all) && all[end].Depth > 0 {
		end++
	}
	if end-root <= most || at-root < most { // whole, or its beginning
		last := min(end, root+most)
		return all[root:last], root, len(all) - last
	}
	path := []Step{all[at]}
	for i := at - 1; i >= root; i-- {
		if all[i].Depth < path[0].Depth {
			path = append([]Step{all[i]}, path...)
		}
	}
	last := min(end, at+1+max(0, most-len(path)))
	shown = append(path, all[at+1:last]...)
	return shown, last - len(shown), len(all) - last
}

// rootOf returns where the tree begins that a step is in.
func rootOf(all []Step, i int) int {
	for i > 0 && all[i].Depth > 0 {
		i--
	}
	return i
}
