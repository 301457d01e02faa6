package jobspec

import (
	"berth/internal/limit"
)

// Limits of job files, which the parser checks, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("job_file_bytes", "Bytes of a job file, of a variable file, and of all -var values together", limit.Bytes, int64(MaxText), "the file is refused (400)"),
	limit.Bound("job_file_blocks", "Blocks of a job file, with those that dynamic blocks make", limit.Count, int64(MaxBlocks), "the file is refused (400)"),
	limit.Bound("job_file_tokens", "Words and punctuation marks of a job file", limit.Count, int64(maxSigns), "the file is refused (400)"),
	limit.Bound("job_file_depth", "Open operators and brackets of a job file", limit.Count, int64(maxDepth), "the file is refused (400)"),
	limit.Bound("job_file_digits", "Digits of a number in a job file", limit.Count, int64(maxNumber), "the file is refused (400)"),
	limit.Bound("job_file_pieces", "Sum of the squares of the pieces of each text with expressions in a job file", limit.Count, int64(maxPieces), "the file is refused (400)"),
	limit.Bound("job_file_variables", "Values from outside a job file", limit.Count, int64(maxVars), "the file is refused (400)"),
	limit.Bound("job_file_steps", "Steps that the expressions of a job file may take, of about 1 µs each", limit.Count, int64(maxSteps), "the file is refused (400)"),
	limit.Bound("job_file_elements", "Elements of all values that the expressions of a job file produce", limit.Count, int64(maxBuilt), "the file is refused (400)"),
	limit.Bound("job_file_text", "Bytes of all texts that the expressions of a job file produce or read", limit.Bytes, int64(maxBytes), "the file is refused (400)"),
	limit.Bound("job_file_list", "Elements of one value of a job file", limit.Count, int64(maxElems), "the file is refused (400)"),
	limit.Bound("job_file_value", "Bytes of one value of a job file", limit.Bytes, int64(maxValue), "the file is refused (400)"),
	limit.Bound("job_file_exponent", "Binary exponent of a number in a job file", limit.Count, int64(maxExp), "the file is refused (400)"),
	limit.Bound("job_file_regexp", "Bytes of a regexp in an expression of a job file", limit.Bytes, int64(maxPattern), "the file is refused (400)"),
	limit.Bound("job_file_problems", "Problems of a job file that are reported", limit.Count, int64(maxProblems), "further ones are counted only"),
}
