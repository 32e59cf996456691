-- wrk script: one billed call, again and again. The request is built once; a `request` function would cost time per call.
wrk.method = "POST"
wrk.path = os.getenv("BENCH_PATH") or "/"
wrk.body = os.getenv("BENCH_BODY") or '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["X-Api-Key"] = os.getenv("BENCH_API_KEY")

-- Latencies are microseconds in wrk; a status above 399 is an error there.
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'figures {"requests":%d,"duration_us":%d,"p50_us":%.1f,"p99_us":%.1f,"max_us":%.1f,' ..
    '"refused":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    errors.status, errors.connect, errors.read, errors.write, errors.timeout))
end
