from dashboard.setup import pip_settings

LISTING = """:env:.find-links='/from/environment'
global.cert='/etc/certs.pem'
global.extra-index-url='file:///one\\nfile:///two'
global.find-links='/from/file'
install.no-index='true'
list.format='columns'
"""


def test_settings_are_read_by_name() -> None:
    settings = pip_settings.parse(LISTING)
    assert settings["cert"] == "/etc/certs.pem"
    assert settings["no-index"] == "true"
    assert "format" not in settings


def test_the_environment_wins_over_files() -> None:
    assert pip_settings.parse(LISTING)["find-links"] == "/from/environment"


def test_every_index_and_folder_becomes_a_flag() -> None:
    flags = pip_settings.as_flags(pip_settings.parse(LISTING))
    assert [flags[place + 1] for place, flag in enumerate(flags) if flag == "--index"] == ["file:///one", "file:///two"]
    assert flags[flags.index("--find-links") + 1] == "/from/environment"
    assert "--no-index" in flags


def test_folders_of_wheels_can_be_left_out() -> None:
    assert "--find-links" not in pip_settings.as_flags({"find-links": "/opt/wheels"}, with_links=False)


def test_no_settings_means_the_installers_own_defaults() -> None:
    assert pip_settings.as_flags({}) == ["--no-config", "--index-strategy", "unsafe-best-match"]
    assert pip_settings.as_environment({}) == {}


def test_certificate_proxy_and_patience_become_variables() -> None:
    settings = {"cert": "/c.pem", "proxy": "proxy:3128", "default-timeout": "180"}
    assert pip_settings.as_environment(settings) == {
        "SSL_CERT_FILE": "/c.pem",
        "ALL_PROXY": "proxy:3128",
        "UV_HTTP_TIMEOUT": "180",
    }
