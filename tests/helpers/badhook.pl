# A hook that misbehaves, in Perl: no fault is one of Python's. Nothing but what every Perl comes with.
#
#     perl badhook.pl WHERE FAULT
#
# It calls in at the test's socket, answers hello and serves; the first tool call that it is asked about, it does its fault.
use strict;
use warnings;
use Socket;

my ($where, $fault) = @ARGV;
my $line;
if ($where =~ /^\d+$/) {
    socket($line, AF_INET, SOCK_STREAM, 0) && connect($line, pack_sockaddr_in($where, INADDR_LOOPBACK)) or die "$!";
} else {
    socket($line, AF_UNIX, SOCK_STREAM, 0) && connect($line, pack_sockaddr_un($where)) or die "$!";
}

sub out {
    my ($to, $text) = @_;
    while (length $text) {
        my $written = syswrite($to, $text);
        exit 13 unless defined $written;
        substr($text, 0, $written) = "";
    }
}

sub reply { out(\*STDOUT, qq({"jsonrpc":"2.0","id":$_[0],"result":$_[1]}\n)) }

my %faults = (
    none       => sub { },
    mid_line   => sub { out(\*STDOUT, qq({"jsonrpc":"2.0","id":$_[0],"res)); exit 7 },
    hang       => sub { sleep 1 while 1 },
    deaf       => sub { $SIG{TERM} = "IGNORE"; out($line, "deaf\n"); sleep 1 while 1 },
    garbage    => sub { out(\*STDOUT, "\e[31mgarbage \xff\n{{{\n[]\n") },
    flood      => sub { out(\*STDOUT, qq({"jsonrpc":"2.0","method":"hook.hi","params":{}}\n) x 1000) while 1 },
    endless    => sub { out(\*STDOUT, "x" x 65536) while 1 },
    no_stdout  => sub { close STDOUT; sleep 1 while 1 },
    segfault   => sub { kill "SEGV", $$; sleep 1 while 1 },
    stopped    => sub { kill "STOP", $$ },
    stderr     => sub { out(\*STDERR, "blah blah\n" x 100_000) },
    two        => sub { reply($_[0], '{"action":"deny_tool","reason":"first"}') },
);

$SIG{PIPE} = "DEFAULT";
out($line, "perl $$\n");
while (my $read = <STDIN>) {
    my ($id) = $read =~ /"id":(\d+)/ or next;
    my ($method) = $read =~ /"method":"([^"]*)"/;
    if ($method eq "hook.before_tool" && $fault ne "none") {
        my $do = $faults{$fault} or die "no such fault: $fault";
        $fault = "none";
        $do->($id);
    }
    reply($id, $method eq "hook.hello" ? '{"ok":true}' : '{"action":"deny_tool","reason":"from perl"}');
}
