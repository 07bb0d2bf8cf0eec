-- Makes wrk send the requests of a file in turn, one for each line "TARGET KEY [HEADER: VALUE]".
-- Use one thread: each thread would begin with the first line.
local heads, index = {}, 0

function init(arguments)
    for line in io.lines(arguments[1]) do
        local target, key, extra = line:match("^(%S+) (%S+) ?(.*)$")
        local headers = { ["X-API-Key"] = key }
        local name, value = extra:match("^([^:]+): (.*)$")
        if name then headers[name] = value end
        heads[#heads + 1] = wrk.format("GET", target, headers)
    end
end

function request()
    index = index % #heads + 1
    return heads[index]
end

function done(summary, latency)
    local counts = summary.errors
    io.write(string.format(
        "JSON {\"requests\": %d, \"seconds\": %.6f, \"p50_us\": %d, \"p99_us\": %d, \"p999_us\": %d, \"not_200\": %d, \"broken\": %d}\n",
        summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
        latency:percentile(99.9), counts.status,
        counts.connect + counts.read + counts.write + counts.timeout))
end
