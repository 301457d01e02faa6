package op

import (
	"berth/internal/limit"
)

// Limits of requests and answers, for docs/limits.md. They are enforced where the
// constants are used.
var _ = []*limit.Limit{
	limit.Bound("job_body", "Body of a request that registers, plans, validates or parses a job", limit.Bytes, int64(MaxJobBody), "413"),
	limit.Bound("request_body", "Body of another request, unless its operation says otherwise", limit.Bytes, int64(MaxBody), "413"),
	limit.Bound("blocking_query_wait", "How long a blocking query waits, without the sixteenth by which waits differ", limit.Time, int64(MaxWait), "the wait is shortened"),
	limit.Bound("page_rows", "Rows of a page, if a request asks for pages", limit.Count, int64(MaxPage), "the page has fewer rows, and a token for the next"),
	limit.Bound("ui_namespaces", "Namespaces of the overview of the web UI", limit.Count, int64(MaxUINamespaces), "the rest is left out, and the page says so"),
	limit.Bound("what_if_names", "Names of nodes in the answer to what would happen if they failed", limit.Count, int64(MaxWhatIfNames), "the rest is counted only"),
	limit.Bound("what_if_groups", "Groups in that answer", limit.Count, int64(MaxWhatIfGroups), "the rest is counted only"),
	limit.Bound("what_if_jobs", "Jobs that are scheduled for that answer", limit.Count, int64(MaxWhatIfJobs), "the rest is not tried, and the answer says so"),
	limit.Bound("disk_part_entries", "Entries of a directory in one answer about the data of an allocation", limit.Count, int64(MaxDiskEntries), "the next answer has the rest"),
	limit.Bound("disk_part", "Bytes of a file in one answer about the data of an allocation", limit.Bytes, int64(MaxDiskBytes), "the next answer has the rest"),
	limit.Bound("ui_attention", "Rows of what needs attention in the web UI", limit.Count, int64(MaxUIAttention), "the rest is counted only"),
	limit.Bound("identities_per_request", "Identities that an agent asks for at once", limit.Count, int64(MaxIdentities), "the request is refused (400)"),
	limit.Bound("variables_per_request", "Variables that an agent asks for at once for templates", limit.Count, int64(MaxWants), "the request is refused (400)"),
	limit.Bound("node_meta_keys", "Keys of the dynamic metadata of a node", limit.Count, int64(MaxMetaKeys), "the request is refused (400)"),
	limit.Bound("node_meta_value", "Bytes of a value of the dynamic metadata of a node", limit.Bytes, int64(MaxMetaValue), "the request is refused (400)"),
}
