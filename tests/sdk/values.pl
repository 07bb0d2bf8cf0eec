#!/usr/bin/env perl
# Reads the registry's largest and emptiest values in another language, without a generated client:
# any strict JSON parser gets the same values. BASE_URL and API_KEY name the service.
use strict;
use warnings;
use utf8;
use HTTP::Tiny;
use JSON::PP;

my $LARGEST = "9007199254740991";
my $http = HTTP::Tiny->new(default_headers => { "X-API-Key" => $ENV{API_KEY} });

sub gene {
    my $response = $http->get("$ENV{BASE_URL}/genes?domain=$_[0]");
    die "$_[0]: $response->{status}\n" unless $response->{success};
    return JSON::PP->new->utf8->decode($response->{content})->{data}[0];
}

sub same {
    my ($what, $found, $expected) = @_;
    die "$what is $found, not $expected\n" unless defined $found && $found eq $expected;
}

my $large = gene("foreign.large");
same("name", $large->{name}, "\x{1F9EC} \"\\\" \x{2028} %");
same("description", $large->{description}, "\x{1D4B3}" x 20000);
same("downloads", $large->{downloads}, $LARGEST);
same("arena_rank", $large->{arena_rank}, $LARGEST);
same("total_calls", $large->{arena_history}[0]{total_calls}, $LARGEST);
same("evaluated_at", $large->{arena_history}[0]{evaluated_at}, "2025-12-31T18:45:00Z");
my $empty = gene("foreign.empty");
same($_, $empty->{$_}, "") for qw(name description owner);
same($_, $empty->{$_}, 0) for qw(fitness_score reputation_score downloads arena_rank);
print "values in Perl: passed\n";
