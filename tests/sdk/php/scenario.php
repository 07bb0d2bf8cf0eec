<?php
// The scenario with the PHP client of openapi-generator.
declare(strict_types=1);

use GuzzleHttp\HandlerStack;
use GuzzleHttp\Middleware;
use OpenAPI\Client\Api\NonstandardApi;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model\ErrorBody;
use OpenAPI\Client\Model\ErrorCode;
use OpenAPI\Client\Model\Fidelity;
use OpenAPI\Client\Model\GeneOrder;
use Psr\Http\Message\RequestInterface;

error_reporting(E_ALL & ~E_DEPRECATED);
require 'GuzzleHttp/autoload.php';
spl_autoload_register(function (string $class): void {
    $file = __DIR__ . '/client/lib/' . strtr(substr($class, strlen('OpenAPI\Client\\')), '\\', '/') . '.php';
    if (str_starts_with($class, 'OpenAPI\Client\\') && is_file($file)) {
        require $file;
    }
});

const LATER = 'db8dde37-1518-4afb-94b1-f5723d34ff6e';

function env(string $name): string
{
    $value = getenv($name);
    assert(is_string($value), $name);
    return $value;
}

/** `$method`: that of all requests, since the client itself has only GET. */
function make(string $base, string $key, ?string $method = null): NonstandardApi
{
    $stack = HandlerStack::create();
    if ($method !== null) {
        $stack->push(Middleware::mapRequest(fn (RequestInterface $request) => $request->withMethod($method)));
    }
    $http = new GuzzleHttp\Client(['handler' => $stack, 'verify' => getenv('SSL_CERT_FILE') ?: true]);
    return new NonstandardApi($http, (new Configuration())->setHost($base)->setApiKey('X-API-Key', $key));
}

function failure(callable $call): ApiException
{
    try {
        $call();
    } catch (ApiException $failure) {
        return $failure;
    }
    throw new LogicException('not refused');
}

function refused(callable $call, int $status, string $code): ApiException
{
    $failure = failure($call);
    assert($failure->getCode() === $status, "{$failure->getCode()} is not $status");
    $body = $failure->getResponseObject();
    assert($body instanceof ErrorBody && $body->getCode() === $code && $body->getError() !== '');
    return $failure;
}

function responses(NonstandardApi $client): void
{
    $page = $client->searchGenes('search', Fidelity::NATIVE, GeneOrder::DOWNLOADS, 2, 1);
    assert([$page->getLimit(), $page->getOffset(), count($page->getData())] === [2, 1, 2]);
    foreach ($page->getData() as $gene) {
        assert($gene->getFidelity() === Fidelity::NATIVE && $gene->getDomain() === 'search');
    }
    $ids = [];
    do {
        $part = $client->searchGenes(limit: 50, offset: count($ids));
        foreach ($part->getData() as $gene) {
            $ids[$gene->getId()] = true;
        }
    } while ($part->getData() !== [] && count($ids) < $part->getTotal());
    assert(count($ids) === $part->getTotal());
    $best = $page->getData()[0];
    assert($client->getGenePhenotype($best->getId())->getName() === $best->getName());
    assert(count($client->getArenaInsights('search')->getTopGenes()) <= 5);
    [, $status, $headers] = $client->searchGenesWithHttpInfo(limit: 1);
    $tag = array_change_key_case($headers)['etag'][0];
    $again = failure(fn () => $client->searchGenes(limit: 1, if_none_match: $tag));
    assert($status === 200 && $again->getCode() === 304);
}

function existing_registry(NonstandardApi $client): void
{
    $large = $client->searchGenes('foreign.large')->getData()[0];
    assert($large->getName() === "\u{1F9EC} \"\\\" \u{2028} %");
    assert($large->getDescription() === str_repeat("\u{1D4B3}", 20000));
    assert($large->getDownloads() === 2 ** 53 - 1);
    $evaluation = $large->getArenaHistory()[0];
    assert($evaluation->getEvaluatedAt()->getTimestamp() === 1_767_206_700);
    $empty = $client->searchGenes('foreign.empty')->getData()[0];
    assert($client->getGenePhenotype($empty->getId())->getCompatibility()->getMinPlaygroundVersion() === '0.0.0');
    assert($client->searchGenes("no.such \u{1F9EC}")->getTotal() === 0);
}

function errors(NonstandardApi $client): void
{
    refused(fn () => $client->getGenePhenotype('no-uuid'), 400, ErrorCode::INVALID_ID);
    refused(fn () => $client->getArenaInsights("a\nb"), 400, ErrorCode::MISSING_PARAM);
    refused(fn () => $client->getGenePhenotype('11111111-1111-4111-8111-111111111111'), 404, ErrorCode::NOT_FOUND);
    refused(fn () => $client->getArenaInsights('no.such.domain'), 404, ErrorCode::NOT_FOUND);
    refused(fn () => make(env('BASE_URL'), 'wrong')->searchGenes(), 401, ErrorCode::UNAUTHORIZED);
    $posting = make(env('BASE_URL'), env('API_KEY'), 'POST');
    refused(fn () => $posting->searchGenes(), 405, ErrorCode::METHOD_NOT_ALLOWED);
    $other = make(env('FAULT_URL'), 'any');
    refused(fn () => $other->searchGenes(), 500, ErrorCode::INTERNAL);
    assert($other->getGenePhenotype(LATER)->getId() === LATER);
}

function retry_after(ApiException $failure): int
{
    $wait = (int) array_change_key_case($failure->getResponseHeaders())['retry-after'][0];
    assert($wait >= 1 && $wait <= 60);
    return $wait;
}

function outage(NonstandardApi $client): void
{
    refused(fn () => $client->searchGenes('outage'), 502, ErrorCode::DB_ERROR);
    refused(fn () => $client->getArenaInsights('outage'), 502, ErrorCode::DB_ERROR);
    $refusing = make(env('REFUSING_URL'), env('API_KEY'));
    retry_after(refused(fn () => $refusing->searchGenes(), 503, ErrorCode::UNAVAILABLE));
}

function limits(NonstandardApi $client): void
{
    $failure = failure(function () use ($client): void {
        for ($sent = 0; $sent <= 3; $sent += 1) {
            $client->searchGenes(limit: 1);
        }
    });
    assert($failure->getCode() === 429 && $failure->getResponseObject()->getCode() === ErrorCode::RATE_LIMITED);
    sleep(retry_after($failure));
    $client->searchGenes(limit: 1);
}

$client = make(env('BASE_URL'), env('API_KEY'));
match ($argv[1] ?? 'full') {
    'brief' => responses($client),
    'outage' => outage($client),
    default => [
        responses($client),
        existing_registry($client),
        errors($client),
        limits(make(env('BASE_URL'), env('SMALL_KEY'))),
    ],
};
echo "openapi-generator, PHP: passed\n";
