"""Where members' sessions work, and where they do not, whatever directory a log names."""

import pytest
from django.contrib.auth.models import User

from sidechat_web.core.errors import SidechatError
from sidechat_web.runtime import commands
from sidechat_web.runtime.tools import builtin, registry, territory
from sidechat_web.runtime.tools.gates import Allow, Call, Deny

pytestmark = pytest.mark.django_db


@pytest.fixture
def places(settings, tmp_path):
    """A workspace that members may use, one beside it whose name begins alike, and a link out."""
    settings.SIDECHAT_OPENAI_BASE_URL, settings.SIDECHAT_DEFAULT_MODEL = "http://127.0.0.1:9/v1", "custom/fake"
    settings.SIDECHAT_WORKSPACES = [str(tmp_path / "open")]
    for name in ("open/inner", "open-not"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "open/link").symlink_to(tmp_path / "open-not")
    return tmp_path


def user(admin):
    return User.objects.create(username="ann", is_superuser=admin)


@pytest.mark.parametrize("place", ["open", "open/inner", "open/inner/..", "open/./inner"])
def test_member_works_where_the_operator_says(places, place):
    assert commands.create(user(False), cwd=str(places / place)).cwd


@pytest.mark.parametrize("place", ["open-not", "open/..", "open/link", "open/../open-not", "."])
def test_member_works_nowhere_else(places, place):
    with pytest.raises(SidechatError) as refusal:
        commands.create(user(False), cwd=str(places / place))
    assert refusal.value.code == "bad_cwd"


def test_admin_works_anywhere(places):
    assert commands.create(user(True), cwd=str(places / "open-not")).cwd


def test_a_session_works_in_the_real_directory(places):
    assert commands.create(user(True), cwd=str(places / "open/link")).cwd == str(places / "open-not")


@pytest.mark.parametrize("place", ["", "data", "data/inner", "link", "link/inner", "data/../data", "missing", "file"])
def test_nobody_works_around_or_in_the_servers_own_data(places, settings, place):
    settings.DATA_DIR = places / "data"
    (places / "data/inner").mkdir(parents=True)
    (places / "link").symlink_to("data")
    (places / "file").write_text("x")
    with pytest.raises(SidechatError) as refusal:
        commands.create(user(True), cwd=str(places / place))
    assert refusal.value.code == "bad_cwd"


def verdict(session, tool):
    return territory.gate(Call(session, "c", tool.name, {}, tool))


def test_gate_holds_for_directories_that_came_with_a_log(places):
    session = commands.create(user(False), cwd=str(places / "open"))
    assert verdict(session, builtin.READ_FILE) == Allow()
    session.cwd = str(places / "open-not")
    for tool in builtin.FILE_TOOLS:
        assert isinstance(verdict(session, tool), Deny)


def test_shell_is_for_admins(places):
    session = commands.create(user(False), cwd=str(places / "open"))
    assert isinstance(verdict(session, builtin.SHELL), Deny)
    User.objects.update(is_superuser=True)
    assert verdict(session, builtin.SHELL) == Allow()


def test_other_tools_are_not_its_affair(places):
    session = commands.create(user(False))
    other = registry.Tool("search", "", {}, True, builtin.READ_FILE.run)
    assert verdict(session, other) == Allow()
    assert territory.gate(Call(session, "c", "unknown", {}, None)) == Allow()
