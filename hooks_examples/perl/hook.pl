#!/usr/bin/env perl
# A review gate, a tool plugin and a redactor in one hook, with the modules of Perl itself.
#
# Run it with: perl hook.pl
use v5.14;
use warnings;
use utf8;
use JSON::PP;

$| = 1;

# allow_bignum: integers that do not fit stay exact. Lines and replies are bytes, so there are no layers on the streams.
my $json = JSON::PP->new->utf8->canonical->allow_bignum->allow_nonref(0);

my %read_only = map { $_ => 1 } qw(read_file list_dir search get_weather);

my $weather = {
    type     => 'function',
    function => {
        name        => 'get_weather',
        description => "Today's weather in a city.",
        parameters  => { type => 'object', properties => { city => { type => 'string' } }, required => ['city'] },
    },
};

my %methods = (
    'hook.hello' => sub { return { ok => JSON::PP::true, name => 'perl' } },

    'hook.before_llm' => sub {
        my ($request) = @_;
        my @tools = @{ $request->{tools} // [] };
        return { action => 'continue' } if grep { is_weather($_) } @tools;
        return { action => 'modify', request => { tools => [ @tools, $weather ] } };
    },

    'hook.before_tool' => sub {
        my ($call) = @_;
        my $given = $call->{arguments} // {};
        if ( $call->{tool} eq 'get_weather' ) {
            my $city = $given->{city} // '';
            return { action => 'respond', result => { for_llm => "$city: 21 °C, sunny" } };
        }
        my $command = $given->{command} // '';
        if ( $call->{tool} eq 'bash' && ( ref $command || $command =~ /rm -rf/ ) ) {
            return { action => 'deny_tool', reason => 'rm -rf is not allowed' };
        }
        return { action => 'continue' };
    },

    'hook.approve_tool' => sub {
        my ($call) = @_;
        return { approved => JSON::PP::true } if $read_only{ $call->{tool} };
        return { approved => JSON::PP::false, reason => "$call->{tool} is not a read-only tool" };
    },

    'hook.after_tool' => sub {
        my ($call) = @_;
        my %clean;
        for my $name (qw(for_llm for_user)) {
            my $text = $call->{result}{$name} // next;
            $clean{$name} = $text if $text =~ s/(?<=password=)\S+|sk-[A-Za-z0-9]{8,}/[redacted]/g;
        }
        return { action => 'continue' } unless %clean;
        return { action => 'modify', result => \%clean };
    },
);

sub is_weather {
    my ($tool) = @_;
    my $function = ref $tool eq 'HASH' ? $tool->{function} : undef;
    return ref $function eq 'HASH' && ( $function->{name} // '' ) eq 'get_weather';
}

while ( my $line = <STDIN> ) {
    my $request = eval { $json->decode($line) };
    if ( ref $request ne 'HASH' ) {
        print STDERR "not a request: $@\n";
        next;
    }
    my $method = $request->{method};
    next if !defined $method || ref $method;    # not a request
    next unless $request->{id};                 # 0 or none: a notification, from PicoClaw too
    my %reply  = ( jsonrpc => '2.0', id => $request->{id} );
    if ( my $stage = $methods{$method} ) {
        $reply{result} = $stage->( $request->{params} // {} );
    }
    else {
        $reply{error} = { code => -32601, message => "no such method: $method" };
    }
    print $json->encode( \%reply ), "\n";
}
