-- wrk script: one billed call, again and again. Requests are built once; with one key there is no `request` function, as
-- it would cost time per call. With several keys, with commas between them, calls have them in turn.
wrk.method = "POST"
wrk.path = os.getenv("BENCH_PATH") or "/"
wrk.body = os.getenv("BENCH_BODY") or '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
wrk.headers["Content-Type"] = "application/json"
local keys = {}
for key in string.gmatch(os.getenv("BENCH_API_KEY"), "[^,]+") do keys[#keys + 1] = key end
wrk.headers["X-Api-Key"] = keys[1]

if #keys > 1 then
  local requests, number = {}, 0
  function init(args)
    for place, key in ipairs(keys) do
      wrk.headers["X-Api-Key"] = key
      requests[place] = wrk.format()
    end
  end
  function request()
    number = number % #requests + 1
    return requests[number]
  end
end

-- Latencies are microseconds in wrk; a status above 399 is an error there.
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'figures {"requests":%d,"duration_us":%d,"p50_us":%.1f,"p99_us":%.1f,"max_us":%.1f,' ..
    '"refused":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    errors.status, errors.connect, errors.read, errors.write, errors.timeout))
end
