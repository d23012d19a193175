-- One script for all of wrk's runs: an optional POST body, and the figures as one line of JSON instead of text.
function init(args)
  if args[1] == "post" then
    wrk.method = "POST"
    wrk.body = string.rep("a", 16384)
  end
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.timeout, e.status))
end
