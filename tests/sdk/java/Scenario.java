// The scenario with the Java client of openapi-generator.

import java.time.OffsetDateTime;
import java.util.HashSet;
import java.util.Set;
import java.util.UUID;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.NonstandardApi;
import org.openapitools.client.model.ErrorBody;
import org.openapitools.client.model.ErrorCode;
import org.openapitools.client.model.Fidelity;
import org.openapitools.client.model.GeneOrder;
import org.openapitools.client.model.GenePage;

class Scenario {
    static final long LARGEST = (1L << 53) - 1;
    static final UUID LATER = UUID.fromString("db8dde37-1518-4afb-94b1-f5723d34ff6e");

    interface Call {
        Object send() throws ApiException;
    }

    static String env(String name) {
        String value = System.getenv(name);
        check(value != null, name);
        return value;
    }

    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static ApiClient connect(String base, String key) {
        var client = new ApiClient();
        client.updateBaseUri(base);
        client.setRequestInterceptor(request -> request.header("X-API-Key", key));
        return client;
    }

    static NonstandardApi make(String base, String key) {
        return new NonstandardApi(connect(base, key));
    }

    static ApiException failure(Call call) {
        try {
            throw new AssertionError("not refused: " + call.send());
        } catch (ApiException failure) {
            return failure;
        }
    }

    static ApiException refused(Call call, int status, ErrorCode code) throws Exception {
        ApiException failure = failure(call);
        check(failure.getCode() == status, failure);
        var body = new ApiClient().getObjectMapper().readValue(failure.getResponseBody(), ErrorBody.class);
        check(body.getCode() == code && !body.getError().isEmpty(), body);
        return failure;
    }

    static GenePage page(NonstandardApi client, String domain, int limit, int offset) throws ApiException {
        return client.searchGenes(domain, null, null, limit, offset, null);
    }

    static void responses(NonstandardApi client) throws Exception {
        GenePage page = client.searchGenes("search", Fidelity.NATIVE, GeneOrder.DOWNLOADS, 2, 1, null);
        check(page.getLimit() == 2 && page.getOffset() == 1 && page.getData().size() == 2, page);
        check(page.getData().stream().allMatch(gene -> gene.getFidelity() == Fidelity.NATIVE), page);
        Set<UUID> ids = new HashSet<>();
        GenePage part;
        do {
            part = page(client, null, 50, ids.size());
            part.getData().forEach(gene -> ids.add(gene.getId()));
        } while (!part.getData().isEmpty() && ids.size() < part.getTotal());
        check(ids.size() == part.getTotal(), ids.size());
        var best = page.getData().get(0);
        check(client.getGenePhenotype(best.getId(), null).getName().equals(best.getName()), best);
        check(client.getArenaInsights("search", null).getTopGenes().size() <= 5, "insights");
        var first = client.searchGenesWithHttpInfo(null, null, null, 1, null, null);
        String tag = first.getHeaders().get("etag").get(0);
        check(failure(() -> client.searchGenes(null, null, null, 1, null, tag)).getCode() == 304, tag);
    }

    static void existingRegistry(NonstandardApi client) throws Exception {
        var large = page(client, "foreign.large", 1, 0).getData().get(0);
        check(large.getName().equals("\uD83E\uDDEC \"\\\" \u2028 %"), large.getName());
        check(large.getDescription().equals("\uD835\uDCB3".repeat(20000)), "description");
        check(large.getDownloads() == LARGEST, large.getDownloads());
        var evaluation = large.getArenaHistory().get(0);
        check(evaluation.getEvaluatedAt().isEqual(OffsetDateTime.parse("2025-12-31T18:45:00Z")), evaluation);
        var empty = page(client, "foreign.empty", 1, 0).getData().get(0);
        var bare = client.getGenePhenotype(empty.getId(), null);
        check(bare.getCompatibility().getMinPlaygroundVersion().equals("0.0.0"), bare);
        check(page(client, "no.such \uD83E\uDDEC", 1, 0).getTotal() == 0, "an astral domain");
    }

    static void errors(NonstandardApi client) throws Exception {
        refused(() -> page(client, null, 51, 0), 400, ErrorCode.MISSING_PARAM);
        refused(() -> client.getArenaInsights("a\nb", null), 400, ErrorCode.MISSING_PARAM);
        refused(() -> client.getGenePhenotype(new UUID(0, 1), null), 404, ErrorCode.NOT_FOUND);
        refused(() -> client.getArenaInsights("no.such.domain", null), 404, ErrorCode.NOT_FOUND);
        refused(() -> page(make(env("BASE_URL"), "wrong"), null, 1, 0), 401, ErrorCode.UNAUTHORIZED);
        NonstandardApi other = make(env("FAULT_URL"), "any");
        refused(() -> page(other, null, 1, 0), 500, ErrorCode.INTERNAL);
        check(other.getGenePhenotype(LATER, null).getId().equals(LATER), "fields of a later version");
    }

    static long retryAfter(ApiException failure) {
        long wait = failure.getResponseHeaders().firstValueAsLong("retry-after").orElseThrow();
        check(wait >= 1 && wait <= 60, wait);
        return wait;
    }

    static void outage(NonstandardApi client) throws Exception {
        refused(() -> page(client, "outage", 1, 0), 502, ErrorCode.DB_ERROR);
        refused(() -> client.getArenaInsights("outage", null), 502, ErrorCode.DB_ERROR);
        NonstandardApi refusing = make(env("REFUSING_URL"), env("API_KEY"));
        retryAfter(refused(() -> page(refusing, null, 1, 0), 503, ErrorCode.UNAVAILABLE));
    }

    static void limits(NonstandardApi client) throws Exception {
        ApiException failure = refused(() -> {
            for (int sent = 0; sent < 3; sent += 1) {
                page(client, null, 1, 0);
            }
            return page(client, null, 1, 0);
        }, 429, ErrorCode.RATE_LIMITED);
        Thread.sleep(retryAfter(failure) * 1000);
        page(client, null, 1, 0);
    }

    public static void main(String[] arguments) throws Exception {
        NonstandardApi client = make(env("BASE_URL"), env("API_KEY"));
        switch (arguments.length == 0 ? "full" : arguments[0]) {
            case "brief" -> responses(client);
            case "outage" -> outage(client);
            default -> {
                responses(client);
                existingRegistry(client);
                errors(client);
                limits(make(env("BASE_URL"), env("SMALL_KEY")));
            }
        }
        System.out.println("openapi-generator, Java: passed");
    }
}
